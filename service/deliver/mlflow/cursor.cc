#include "service/deliver/mlflow/cursor.h"

namespace ranklog::deliver::mlflow {
namespace {

void Read(const model::Json& json, std::string* value) {
  if (json.is_string()) *value = json.get<std::string>();
}
void Read(const model::Json& json, bool* value) {
  if (json.is_boolean()) *value = json.get<bool>();
}
void Read(const model::Json& json, int64_t* value) {
  if (json.is_number_integer()) *value = json.get<int64_t>();
}
void Read(const model::Json& json, uint64_t* value) {
  if (json.is_number_unsigned() || (json.is_number_integer() && json.get<int64_t>() >= 0)) {
    *value = json.get<uint64_t>();
  }
}
void Read(const model::Json& json, std::map<std::string, std::string>* value) {
  if (!json.is_object()) return;
  for (const auto& [key, member] : json.items()) {
    if (member.is_string()) (*value)[key] = member.get<std::string>();
  }
}
void Read(const model::Json& json, std::set<std::string>* value) {
  if (!json.is_array()) return;
  for (const model::Json& element : json) {
    if (element.is_string()) value->insert(element.get<std::string>());
  }
}

template <typename C, typename Fn>
void VisitMembers(C& cursor, Fn&& fn) {
  fn("experiment_id", cursor.experiment_id);
  fn("run_id", cursor.run_id);
  fn("parent_id", cursor.parent_id);
  fn("artifact_uri", cursor.artifact_uri);
  fn("joined", cursor.joined);
  fn("status", cursor.status);
  fn("points", cursor.points);
  fn("replays_through", cursor.replays_through);
  fn("replayed_rows", cursor.replayed_rows);
  fn("samples", cursor.samples);
  fn("params", cursor.params);
  fn("tags", cursor.tags);
  fn("unsent_keys", cursor.unsent_keys);
  fn("content", cursor.content);
  fn("console", cursor.console);
  fn("summary", cursor.summary);
}

}  // namespace

Cursor CursorFrom(const model::Json& json) {
  Cursor cursor;
  if (!json.is_object()) return cursor;
  VisitMembers(cursor, [&](const char* name, auto& member) {
    if (const auto found = json.find(name); found != json.end()) Read(*found, &member);
  });
  return cursor;
}

model::Json ToJson(const Cursor& cursor) {
  model::Json json = model::Json::object();
  VisitMembers(cursor, [&](const char* name, const auto& member) { json[name] = member; });
  return json;
}

}  // namespace ranklog::deliver::mlflow
