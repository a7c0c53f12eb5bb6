#include "service/import/record_object.h"

#include <utility>

namespace ranklog::imports {

using model::Json;

RecordObject::Member& RecordObject::Find(absl::string_view key) {
  // Records set the same members in the same order.
  if (expected_ >= members_.size() || members_[expected_].key != key) {
    const auto [found, is_new] = index_.try_emplace(std::string(key), members_.size());
    if (is_new) members_.push_back({.key = std::string(key)});
    expected_ = found->second;
  }
  return members_[expected_++];
}

void RecordObject::ReadText(Member* member) {
  if (member->text.empty()) return;
  Json value = ToJson(member->text);
  member->value = value.is_discarded() ? Json() : std::move(value);
  member->text.clear();
}

void RecordObject::SetFlat(const std::string& key, const std::string& json) {
  if (merges_ && !json.empty() && json[0] == '{') return SetNested({key}, json);
  Member& member = Find(key);
  member.changed = true;
  member.text = json;
}

void RecordObject::SetNested(const Path& path, const std::string& json) {
  Member& member = Find(path[0]);
  member.changed = true;
  ReadText(&member);
  Json value = ToJson(json);
  if (value.is_discarded()) value = Json();
  SetAt(absl::MakeConstSpan(path).subspan(1), std::move(value), merges_, &member.value);
}

void RecordObject::Remove(const Path& path) {
  Member& member = Find(path[0]);
  member.changed = true;
  ReadText(&member);
  if (path.size() == 1) {
    member.value = Json();
    return;
  }
  Json* at = &member.value;
  for (size_t i = 1; i + 1 < path.size(); ++i) {
    if (!at->is_object() || !at->contains(path[i])) return;
    at = &(*at)[path[i]];
  }
  if (at->is_object()) at->erase(path.back());
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
