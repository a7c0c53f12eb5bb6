#include "service/deliver/clickhouse/cursor.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/deliver/json/json_members.h"

namespace ranklog::deliver::clickhouse {
namespace {

uint64_t NumberIn(const model::Json& json) {
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  return json.is_number_integer() && json.get<int64_t>() >= 0 ? json.get<uint64_t>() : 0;
}

uint64_t NumberOf(const model::Json& json, const char* name) {
  return NumberIn(MemberOf(json, name));
}

// The members whose names are ids.
template <typename Fn>
void ForEachId(const model::Json& json, const char* name, Fn&& fn) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_object()) return;
  for (const auto& [key, value] : found->items()) {
    int64_t id = 0;
    if (absl::SimpleAtoi(key, &id)) fn(id, value);
  }
}

}  // namespace

Cursor CursorFrom(const model::Json& json) {
  Cursor cursor;
  if (!json.is_object()) return cursor;
  cursor.tables = NumberOf(json, "tables") != 0;
  cursor.samples = NumberOf(json, "samples");
  cursor.samples_to = NumberOf(json, "samples_to");
  cursor.version = NumberOf(json, "version");
  cursor.described = TextOf(json, "described");
  ForEachId(json, "streams", [&](int64_t id, const model::Json& value) {
    if (!value.is_array() || value.size() != 2) return;
    cursor.places[id] = {NumberIn(value[0]), NumberIn(value[1])};
  });
  if (const auto cut = json.find("cut"); cut != json.end() && cut->is_object()) {
    Cut& read = cursor.cut.emplace();
    read.boot = TextOf(*cut, "boot");
    read.boot_us = static_cast<int64_t>(NumberOf(*cut, "boot_us"));
    ForEachId(*cut, "to",
              [&](int64_t id, const model::Json& value) { read.to[id] = NumberIn(value); });
  }
  return cursor;
}

model::Json ToJson(const Cursor& cursor) {
  model::Json json = model::Json::object();
  json["tables"] = cursor.tables ? 1 : 0;
  model::Json streams = model::Json::object();
  for (const auto& [id, place] : cursor.places) {
    streams[absl::StrCat(id)] = {place.points, place.texts};
  }
  json["streams"] = std::move(streams);
  if (cursor.cut) {
    model::Json to = model::Json::object();
    for (const auto& [id, seq] : cursor.cut->to) to[absl::StrCat(id)] = seq;
    json["cut"] = {
        {"to", std::move(to)}, {"boot", cursor.cut->boot}, {"boot_us", cursor.cut->boot_us}};
  }
  json["samples"] = cursor.samples;
  json["samples_to"] = cursor.samples_to;
  json["version"] = cursor.version;
  json["described"] = cursor.described;
  return json;
}

}  // namespace ranklog::deliver::clickhouse
