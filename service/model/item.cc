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

std::vector<Item::StagedFile> Item::StagedFiles() const {
  std::vector<StagedFile> files;
  const auto add = [&files](const Json& entry) {
    if (!entry.is_object()) return;
    const auto file = entry.find("file");
    if (file == entry.end() || !file->is_string()) return;
    const auto bytes = entry.find("bytes");
    const int64_t size =
        bytes != entry.end() && bytes->is_number_integer() ? bytes->get<int64_t>() : 0;
    files.push_back({file->get<std::string>(), static_cast<uint64_t>(std::max<int64_t>(size, 0))});
  };
  if (kind == Kind::kRunFile) add(object);
  if (kind != Kind::kArtifact || !object.is_object()) return files;
  const auto entries = object.find("entries");
  if (entries == object.end() || !entries->is_array()) return files;
  for (const Json& entry : *entries) add(entry);
  return files;
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
