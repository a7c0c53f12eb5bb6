#include "service/deliver/wandb/cursor.h"

namespace ranklog::deliver::wandb {
namespace {

std::string Text(const model::Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

int64_t Integer(const model::Json& json, const char* key, int64_t absent = 0) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number_integer() ? it->get<int64_t>() : absent;
}

}  // namespace

model::Json ToJson(const Cursor& cursor) {
  return {{"storage_id", cursor.storage_id},
          {"entity", cursor.entity},
          {"project", cursor.project},
          {"run_id", cursor.run_id},
          {"display_name", cursor.display_name},
          {"base_offset", cursor.base_offset},
          {"cut_rows", cursor.cut_rows},
          {"cut_updates", cursor.cut_updates},
          {"continued", cursor.continued},
          {"continued_us", cursor.continued_us},
          {"replays_through", cursor.replays_through},
          {"replayed_rows", cursor.replayed_rows}};
}

Cursor CursorFrom(const model::Json& json) {
  Cursor cursor;
  if (!json.is_object()) return cursor;
  cursor.storage_id = Text(json, "storage_id");
  cursor.entity = Text(json, "entity");
  cursor.project = Text(json, "project");
  cursor.run_id = Text(json, "run_id");
  cursor.display_name = Text(json, "display_name");
  cursor.base_offset = Integer(json, "base_offset");
  cursor.cut_rows = static_cast<uint64_t>(Integer(json, "cut_rows"));
  cursor.cut_updates = Integer(json, "cut_updates");
  const auto continued = json.find("continued");
  cursor.continued = continued != json.end() && continued->is_boolean() && continued->get<bool>();
  cursor.continued_us = Integer(json, "continued_us");
  cursor.replays_through = Integer(json, "replays_through", /*absent=*/-1);
  cursor.replayed_rows = static_cast<uint64_t>(Integer(json, "replayed_rows"));
  return cursor;
}

}  // namespace ranklog::deliver::wandb
