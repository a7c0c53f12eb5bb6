#include "service/aggregate/metric_table.h"

#include <algorithm>
#include <set>

namespace ranklog::aggregate {

void MetricTable::Define(const model::MetricDefinition& definition) {
  const bool glob = !definition.name.empty() && definition.name.back() == '*';
  const std::string name =
      glob ? definition.name.substr(0, definition.name.size() - 1) : definition.name;
  auto [found, is_new] = (glob ? by_prefix_ : by_name_).try_emplace(name, definitions_.size());
  if (is_new) {
    definitions_.push_back(definition);
    definitions_.back().step_sync &= !definition.step_metric.empty();
    ++version_;
    return;
  }
  model::MetricDefinition& merged = definitions_[found->second];
  const model::MetricDefinition before = merged;
  if (!definition.step_metric.empty()) {
    merged.step_metric = definition.step_metric;
    merged.step_sync |= definition.step_sync;
  }
  merged.hidden |= definition.hidden;
  for (const std::string& option : definition.summary) {
    if (std::find(merged.summary.begin(), merged.summary.end(), option) == merged.summary.end()) {
      merged.summary.push_back(option);
    }
  }
  if (!definition.goal.empty()) merged.goal = definition.goal;
  if (!(merged == before)) ++version_;
}

const model::MetricDefinition* MetricTable::Find(absl::string_view key) const {
  const std::string name(key.data(), key.size());
  if (auto exact = by_name_.find(name); exact != by_name_.end()) {
    return &definitions_[exact->second];
  }
  if (by_prefix_.empty() || (!name.empty() && name.front() == '_')) return nullptr;
  // From the longest prefix to the empty one, which "*" defines.
  for (size_t length = name.size() + 1; length-- > 0;) {
    if (auto glob = by_prefix_.find(name.substr(0, length)); glob != by_prefix_.end()) {
      return &definitions_[glob->second];
    }
  }
  return nullptr;
}

size_t StepSync::SlotOf(const std::string& step_metric) {
  auto [slot, is_new] = slots_.try_emplace(step_metric, last_.size());
  if (is_new) last_.push_back(0);
  return slot->second;
}

const StepSync::Plan& StepSync::PlanFor(uint32_t shape, absl::Span<const std::string> keys) {
  auto [found, is_new] = plans_.try_emplace(shape);
  Plan& plan = found->second;
  if (!is_new && plan.version == table_->version()) return plan;
  plan = Plan();
  plan.version = table_->version();
  // A later definition may make any key a step metric, so the last value of every key is kept.
  for (size_t i = 0; i < keys.size(); ++i) plan.learned.push_back({i, SlotOf(keys[i])});
  std::set<absl::string_view> present(keys.begin(), keys.end());
  present.insert("_step");  // every row has its own step
  for (const std::string& key : keys) {
    const model::MetricDefinition* definition = table_->Find(key);
    if (definition == nullptr || !definition->step_sync) continue;
    const std::string& step_metric = definition->step_metric;
    if (!present.insert(step_metric).second) continue;
    plan.added.push_back(step_metric);
    plan.added_slots.push_back(SlotOf(step_metric));
  }
  return plan;
}

void StepSync::Next(const Plan& plan, const double* values, std::vector<double>* added) {
  for (const Plan::Learned& learned : plan.learned) last_[learned.slot] = values[learned.position];
  added->clear();
  for (size_t slot : plan.added_slots) added->push_back(last_[slot]);
}

}  // namespace ranklog::aggregate
