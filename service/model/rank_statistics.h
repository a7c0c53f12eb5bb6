// Which statistics over the ranks the metrics of a run get.

#ifndef SERVICE_MODEL_RANK_STATISTICS_H_
#define SERVICE_MODEL_RANK_STATISTICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/model/session.h"

namespace ranklog::model {

// The statistics of a metric are called rank_NAME/METRIC.
inline constexpr absl::string_view kRankStatistics[] = {"mean", "min",    "max",
                                                        "std",  "argmin", "argmax"};

// Of how many ranks a metric's statistics are made: rank_count/METRIC. Only in rows in which ranks of
// other nodes are missing.
inline constexpr absl::string_view kRankCount = "count";

// The metric of which `key` is the name of a statistic, or of its count; empty if it is not such a
// name.
absl::string_view MetricOfStatistic(absl::string_view key);

// Immutable.
//
// A metric gets the statistics of the first rule whose glob matches its whole name, or else those
// of `names`. In a glob, "*" stands for any text, "/" included. The last "=" of a rule ends its
// glob, because metrics may have one in their names.
class RankStatistics {
 public:
  // `names` and `rules` as in RunSettings. Unknown names have no effect.
  explicit RankStatistics(const std::vector<std::string>& names = {},
                          const std::vector<std::string>& rules = {});
  // Those of a run. The strategy `all` has none.
  static RankStatistics OfRun(const RunSettings& settings);

  // The statistics of a metric, as bits: 1 << the index in kRankStatistics.
  uint32_t Of(absl::string_view metric) const;
  // False if no metric has statistics.
  bool any() const;

 private:
  struct Rule {
    std::string glob;
    uint32_t statistics;
  };
  std::vector<Rule> rules_;  // the last one matches every metric
};

// The mistakes in RunSettings::rank_statistics and rank_statistic_rules.
std::vector<std::string> RankStatisticsErrors(const std::vector<std::string>& names,
                                              const std::vector<std::string>& rules);

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_RANK_STATISTICS_H_
