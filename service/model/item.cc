#include "service/model/item.h"

namespace ranklog::model {

int64_t Item::BeforeStepOf(const std::string& key) const {
  const auto found = before_steps.find(key);
  return found == before_steps.end() ? before_step : found->second;
}

bool Item::Absorb(const Item& later) {
  if (kind != later.kind || (kind == Kind::kMetric && metric != later.metric)) return false;
  for (const auto& [key, value] : later.object.items()) {
    object[key] = value;
    if (kind != Kind::kSummary) continue;
    const int64_t step = later.BeforeStepOf(key);
    if (step == before_step) {
      before_steps.erase(key);
    } else {
      before_steps[key] = step;
    }
  }
  seq = later.seq;
  count += later.count;
  time_us = later.time_us;
  after_row = later.after_row;
  return true;
}

}  // namespace ranklog::model
