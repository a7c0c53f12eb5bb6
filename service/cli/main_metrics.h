#ifndef SERVICE_CLI_MAIN_METRICS_H_
#define SERVICE_CLI_MAIN_METRICS_H_

#include <string>
#include <vector>

#include "service/aggregate/metric_table.h"

namespace ranklog::cli {

// Whether the daemon made this metric of several ranks' values: rank_mean/loss and the like.
bool IsRankStatistic(const std::string& key);

// The metrics that a person wants to see first: losses, then the others, each in the order of
// `keys`, at most `limit`. Without the statistics over ranks, what is defined as hidden, and what
// begins with '_'.
std::vector<std::string> MainMetrics(const std::vector<std::string>& keys,
                                     const aggregate::MetricTable& definitions, size_t limit);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_MAIN_METRICS_H_
