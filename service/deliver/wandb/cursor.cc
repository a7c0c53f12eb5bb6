#include "service/deliver/wandb/cursor.h"

#include <algorithm>

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

model::Json ToJson(const Cursor& place) {
  return {{"storage_id", place.storage_id},
          {"entity", place.entity},
          {"project", place.project},
          {"run_id", place.run_id},
          {"display_name", place.display_name},
          {"base_offset", place.base_offset},
          {"cut_rows", place.cut_rows},
          {"cut_updates", place.cut_updates},
          {"continued", place.continued},
          {"continued_us", place.continued_us},
          {"replays_through", place.replays_through},
          {"replayed_rows", place.replayed_rows}};
}

Cursor CursorFrom(const model::Json& json) {
  Cursor place;
  if (!json.is_object()) return place;
  place.storage_id = Text(json, "storage_id");
  place.entity = Text(json, "entity");
  place.project = Text(json, "project");
  place.run_id = Text(json, "run_id");
  place.display_name = Text(json, "display_name");
  place.base_offset = Integer(json, "base_offset");
  place.cut_rows = static_cast<uint64_t>(Integer(json, "cut_rows"));
  place.cut_updates = Integer(json, "cut_updates");
  const auto continued = json.find("continued");
  place.continued = continued != json.end() && continued->is_boolean() && continued->get<bool>();
  place.continued_us = Integer(json, "continued_us");
  place.replays_through = Integer(json, "replays_through", /*absent=*/-1);
  place.replayed_rows = static_cast<uint64_t>(Integer(json, "replayed_rows"));
  return place;
}

uint64_t ReplayedRows(const model::Delivery& delivery) {
  return std::min(CursorFrom(delivery.place).replayed_rows, delivery.delivered_rows);
}

}  // namespace ranklog::deliver::wandb
