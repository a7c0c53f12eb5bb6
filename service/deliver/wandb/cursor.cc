#include "service/deliver/wandb/cursor.h"

#include "absl/strings/str_cat.h"
#include "service/deliver/json/json_members.h"

namespace ranklog::deliver::wandb {
namespace {

std::map<std::string, std::string> Texts(const model::Json& json, const char* key) {
  std::map<std::string, std::string> texts;
  const auto it = json.find(key);
  if (it == json.end() || !it->is_object()) return texts;
  for (const auto& [name, value] : it->items()) {
    if (value.is_string()) texts[name] = value.get<std::string>();
  }
  return texts;
}

}  // namespace

std::string Digest(absl::string_view text) {
  // FNV-1a, 64 bits, twice with different starts: nobody gains by a collision.
  std::string digest;
  for (uint64_t hash : {0xcbf29ce484222325u, 0x84222325cbf29ce4u}) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    absl::StrAppend(&digest, absl::Hex(hash, absl::kZeroPad16));
  }
  return digest;
}

model::Json ToJson(const Cursor& cursor) {
  model::Json json = {{"storage_id", cursor.storage_id},
                      {"entity", cursor.entity},
                      {"project", cursor.project},
                      {"run_id", cursor.run_id},
                      {"display_name", cursor.display_name},
                      {"base_offset", cursor.base_offset},
                      {"cut_rows", cursor.cut_rows},
                      {"cut_updates", cursor.cut_updates},
                      {"cut_clock", cursor.cut_clock},
                      {"continued", cursor.continued},
                      {"continued_us", cursor.continued_us},
                      {"replays_through", cursor.replays_through},
                      {"replayed_rows", cursor.replayed_rows},
                      {"samples", cursor.samples},
                      {"events_offset", cursor.events_offset},
                      {"cut_samples", cursor.cut_samples},
                      {"console_change", cursor.console_change},
                      {"console_end", cursor.console_end},
                      {"console_from", cursor.console_from},
                      {"console_offset", cursor.console_offset},
                      {"runtime_before_us", cursor.runtime_before_us},
                      {"summary_before", cursor.summary_before},
                      {"sent_texts", cursor.sent_texts},
                      {"sent_config", cursor.sent_config},
                      {"sent_files", cursor.sent_files},
                      {"content", cursor.content},
                      {"unannounced_files", cursor.unannounced_files}};
  if (cursor.alerts > 0) json["alerts"] = cursor.alerts;
  if (!cursor.content_progress.is_null()) json["content_progress"] = cursor.content_progress;
  if (cursor.content_bytes > 0) {
    json["content_files"] = cursor.content_files;
    json["content_bytes"] = cursor.content_bytes;
  }
  return json;
}

Cursor CursorFrom(const model::Json& json) {
  Cursor cursor;
  if (!json.is_object()) return cursor;
  cursor.sent_config = Texts(json, "sent_config");
  cursor.storage_id = TextOf(json, "storage_id");
  if (!cursor.created()) return cursor;  // the standing is asked for again
  cursor.entity = TextOf(json, "entity");
  cursor.project = TextOf(json, "project");
  cursor.run_id = TextOf(json, "run_id");
  cursor.display_name = TextOf(json, "display_name");
  cursor.base_offset = IntegerOf(json, "base_offset");
  cursor.cut_rows = static_cast<uint64_t>(IntegerOf(json, "cut_rows"));
  cursor.cut_updates = IntegerOf(json, "cut_updates");
  if (const auto clock = json.find("cut_clock"); clock != json.end() && clock->is_array()) {
    for (const model::Json& attempt : *clock) {
      if (!attempt.is_array() || attempt.size() != 2 || !attempt[0].is_number_integer() ||
          !attempt[1].is_number_integer()) {
        continue;
      }
      cursor.cut_clock.emplace_back(attempt[0].get<int64_t>(), attempt[1].get<int64_t>());
    }
  }
  const auto continued = json.find("continued");
  cursor.continued = continued != json.end() && continued->is_boolean() && continued->get<bool>();
  cursor.continued_us = IntegerOf(json, "continued_us");
  cursor.replays_through = IntegerOf(json, "replays_through", /*absent=*/-1);
  cursor.replayed_rows = static_cast<uint64_t>(IntegerOf(json, "replayed_rows"));
  cursor.samples = static_cast<uint64_t>(IntegerOf(json, "samples"));
  cursor.events_offset = IntegerOf(json, "events_offset");
  cursor.cut_samples = static_cast<uint64_t>(IntegerOf(json, "cut_samples"));
  cursor.console_change = IntegerOf(json, "console_change");
  cursor.console_end = static_cast<uint64_t>(IntegerOf(json, "console_end"));
  cursor.console_from = static_cast<uint64_t>(IntegerOf(json, "console_from"));
  cursor.console_offset = IntegerOf(json, "console_offset");
  cursor.alerts = IntegerOf(json, "alerts");
  cursor.runtime_before_us = IntegerOf(json, "runtime_before_us");
  const auto before = json.find("summary_before");
  if (before != json.end() && before->is_object()) cursor.summary_before = *before;
  cursor.sent_texts = Texts(json, "sent_texts");
  cursor.sent_files = Texts(json, "sent_files");
  cursor.content = IntegerOf(json, "content");
  cursor.content_progress = MemberOf(json, "content_progress");
  cursor.content_files = static_cast<uint64_t>(IntegerOf(json, "content_files"));
  cursor.content_bytes = static_cast<uint64_t>(IntegerOf(json, "content_bytes"));
  if (const auto names = json.find("unannounced_files"); names != json.end() && names->is_array()) {
    for (const model::Json& name : *names) {
      if (name.is_string()) cursor.unannounced_files.push_back(name.get<std::string>());
    }
  }
  return cursor;
}

}  // namespace ranklog::deliver::wandb
