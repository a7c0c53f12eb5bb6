#include "service/import/records/record_object.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "service/import/records/json_values.h"

namespace ranklog::imports {

using model::Json;

RecordObject::Member& RecordObject::Find(absl::string_view key) {
  // Records set the same members in the same order.
  if (expected_ >= members_.size() || members_[expected_].key != key) {
    const auto found = index_.find(key);
    expected_ = found == index_.end() ? members_.size() : found->second;
    if (found == index_.end()) {
      members_.push_back({.key = std::string(key)});
      index_.emplace(key, expected_);
    }
  }
  return members_[expected_++];
}

void RecordObject::ReadText(Member* member) {
  if (member->text.empty()) return;
  Json value = ToJson(member->text);
  member->value = value.is_discarded() ? Json() : std::move(value);
  member->text.clear();
}

void RecordObject::Apply(const RecordValues& values) {
  for (const RecordValues::Value& value : values.set()) Set(values.PathOf(value), value.json);
  for (const RecordValues::Value& value : values.removed()) Remove(values.PathOf(value));
}

void RecordObject::Set(RecordValues::Path path, absl::string_view json) {
  Member& member = Find(path[0]);
  member.changed = true;
  const bool flat = path.size() == 1 && !(merges_ && absl::StartsWith(json, "{"));
  if (flat && !json.empty()) {
    member.text.assign(json.data(), json.size());
    return;
  }
  ReadText(&member);
  Json value = ToJson(json);
  if (value.is_discarded()) value = Json();
  SetAt(path.subspan(1), std::move(value), merges_, &member.value);
}

void RecordObject::Remove(RecordValues::Path path) {
  Member& member = Find(path[0]);
  member.changed = true;
  ReadText(&member);
  if (path.size() == 1) {
    member.value = Json();
    return;
  }
  Json* at = &member.value;
  for (const absl::string_view name : path.subspan(1, path.size() - 2)) {
    if (!at->is_object() || !at->contains(std::string(name))) return;
    at = &(*at)[std::string(name)];
  }
  if (at->is_object()) at->erase(std::string(path.back()));
}

Json RecordObject::TakeChanged() {
  Json changed = Json::object();
  for (Member& member : members_) {
    if (!std::exchange(member.changed, false)) continue;
    ReadText(&member);
    changed[member.key] = member.value;
  }
  return changed;
}

}  // namespace ranklog::imports
