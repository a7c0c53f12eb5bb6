#include "service/model/item.h"

namespace ranklog::model {

namespace {

// A member of each key, and the keys that have another value.
using Others = std::map<std::string, int64_t>;

int64_t Find(const Others& others, const std::string& key, int64_t usual) {
  const auto found = others.find(key);
  return found == others.end() ? usual : found->second;
}

void Set(Others& others, const std::string& key, int64_t usual, int64_t value) {
  if (value == usual) {
    others.erase(key);
  } else {
    others[key] = value;
  }
}

}  // namespace

int64_t Item::BeforeStepOf(const std::string& key) const {
  return Find(before_steps, key, before_step);
}

int64_t Item::CalledAt(const std::string& key) const { return Find(called_us_of, key, called_us); }

std::vector<std::string> Item::StagedFiles() const {
  std::vector<std::string> names;
  const auto add = [&names](const Json& entry) {
    if (!entry.is_object()) return;
    const auto file = entry.find("file");
    if (file != entry.end() && file->is_string()) names.push_back(file->get<std::string>());
  };
  if (kind == Kind::kRunFile) add(object);
  if (kind != Kind::kArtifact || !object.is_object()) return names;
  const auto entries = object.find("entries");
  if (entries == object.end() || !entries->is_array()) return names;
  for (const Json& entry : *entries) add(entry);
  return names;
}

bool Item::Absorb(const Item& later) {
  if (kind != later.kind || (kind == Kind::kMetric && metric != later.metric)) return false;
  if (IsSingle() || kind == Kind::kConsole) return false;
  for (const auto& [key, value] : later.object.items()) {
    object[key] = value;
    Set(called_us_of, key, called_us, later.CalledAt(key));
    if (kind == Kind::kSummary) Set(before_steps, key, before_step, later.BeforeStepOf(key));
  }
  seq = later.seq;
  count += later.count;
  time_us = later.time_us;
  after_row = later.after_row;
  return true;
}

}  // namespace ranklog::model
