#ifndef SERVICE_QUERY_MAIN_METRICS_H_
#define SERVICE_QUERY_MAIN_METRICS_H_

#include <string>
#include <vector>

#include "service/aggregate/metric_table.h"

namespace ranklog::query {

// Whether the daemon computed this metric from values of several ranks: rank_mean/loss and similar.
bool IsRankStatistic(const std::string& key);

// The metrics to show first, at most `limit`: losses, then others, each in the order of `keys`.
// Leaves out rank statistics, metrics that are defined as hidden, and keys that start with '_'.
std::vector<std::string> MainMetrics(const std::vector<std::string>& keys,
                                     const aggregate::MetricTable& definitions, size_t limit);

}  // namespace ranklog::query

#endif  // SERVICE_QUERY_MAIN_METRICS_H_
