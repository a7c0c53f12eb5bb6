#include "service/import/records/record_items.h"

#include <google/protobuf/util/json_util.h>

#include <string>
#include <utility>

#include "service/import/records/json_values.h"

namespace ranklog::imports {

using model::Json;

model::MetricDefinition ToDefinition(const wandb_internal::MetricRecord& metric) {
  const wandb_internal::MetricSummary& shown = metric.summary();
  model::MetricDefinition definition;
  definition.name = metric.glob_name().empty() ? metric.name() : metric.glob_name();
  definition.step_metric = metric.step_metric();
  definition.step_sync = metric.options().step_sync();
  definition.hidden = metric.options().hidden();
  for (const auto& [name, is_set] : {std::pair("min", shown.min()),
                                     {"max", shown.max()},
                                     {"mean", shown.mean()},
                                     {"best", shown.best()},
                                     {"last", shown.last()},
                                     {"none", shown.none()},
                                     {"first", shown.first()}}) {
    if (is_set) definition.summary.emplace_back(name);
  }
  if (metric.goal() == wandb_internal::MetricRecord::GOAL_MINIMIZE) definition.goal = "minimize";
  if (metric.goal() == wandb_internal::MetricRecord::GOAL_MAXIMIZE) definition.goal = "maximize";
  return definition;
}

model::Sample ToSample(const wandb_internal::StatsRecord& stats) {
  model::Sample sample;
  sample.time_us = TimeOf(stats);
  for (const wandb_internal::StatsItem& item : stats.item()) {
    double value = 0;
    if (ParseNumber(item.value_json(), &value)) sample.values.emplace_back(item.key(), value);
  }
  return sample;
}

Json ToAlert(const wandb_internal::AlertRecord& alert) {
  Json object = Json::object();
  object["title"] = alert.title();
  object["text"] = alert.text();
  object["level"] = alert.level();
  object["wait_ms"] = alert.wait_duration();
  return object;
}

Json ToMetadata(const wandb_internal::EnvironmentRecord& environment) {
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(environment, &text).ok()) return Json::object();
  Json metadata = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return metadata.is_object() ? metadata : Json::object();
}

}  // namespace ranklog::imports
