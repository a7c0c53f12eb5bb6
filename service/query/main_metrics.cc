#include "service/query/main_metrics.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "service/model/rank_statistics.h"

namespace ranklog::query {

bool IsRankStatistic(const std::string& key) { return !model::MetricOfStatistic(key).empty(); }

std::vector<std::string> MainMetrics(const std::vector<std::string>& keys,
                                     const aggregate::MetricTable& definitions, size_t limit) {
  std::vector<std::string> chosen;
  for (const std::string& key : keys) {
    if (key.empty() || key.front() == '_' || IsRankStatistic(key)) continue;
    const model::MetricDefinition* definition = definitions.Find(key);
    if (definition == nullptr || !definition->hidden) chosen.push_back(key);
  }
  std::stable_partition(chosen.begin(), chosen.end(), [](const std::string& key) {
    return absl::StrContains(absl::AsciiStrToLower(key), "loss");
  });
  if (chosen.size() > limit) chosen.resize(limit);
  return chosen;
}

}  // namespace ranklog::query
