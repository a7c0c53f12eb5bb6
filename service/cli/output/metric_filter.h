#ifndef SERVICE_CLI_OUTPUT_METRIC_FILTER_H_
#define SERVICE_CLI_OUTPUT_METRIC_FILTER_H_

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/base/text/printable.h"
#include "service/model/batch.h"
#include "service/query/row_reader.h"

namespace ranklog::cli {

// Reduces rows to the selected metrics.
class MetricFilter {
 public:
  explicit MetricFilter(const std::vector<std::string>& metrics) : metrics_(metrics) {}

  // Visits the remaining part of `row`. Rows without any of the metrics are skipped.
  absl::Status Visit(const query::Row& row,
                     absl::FunctionRef<absl::Status(const query::Row&)> visitor) {
    if (metrics_.empty()) return visitor(row);
    model::Block block;
    block.shape = row.block.shape;
    block.offsets = {0};
    block.steps = {row.step()};
    block.times_us = {row.time_us()};
    std::vector<std::string> keys;
    for (size_t i = 0; i < row.keys.size(); ++i) {
      if (!Wants(row.keys[i])) continue;
      keys.push_back(row.keys[i]);
      block.values.push_back(row.values()[i]);
    }
    for (const model::Text& text : row.texts()) {
      if (Wants(text.key)) block.texts.push_back({0, text.key, text.value, text.json});
    }
    if (keys.empty() && block.texts.empty()) return absl::OkStatus();
    return visitor({row.owner, row.position, block, 0, keys});
  }

  // The metrics that occurred in no visited row.
  std::vector<std::string> Missing() const {
    std::vector<std::string> missing;
    for (const std::string& metric : metrics_) {
      if (seen_.count(metric) == 0) missing.push_back(Printable(metric));
    }
    return missing;
  }

 private:
  bool Wants(const std::string& key) {
    if (std::find(metrics_.begin(), metrics_.end(), key) == metrics_.end()) return false;
    seen_.insert(key);
    return true;
  }

  const std::vector<std::string>& metrics_;
  std::set<std::string> seen_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_METRIC_FILTER_H_
