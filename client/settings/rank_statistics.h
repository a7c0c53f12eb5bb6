// The setting `rank_statistics`: which statistics over the ranks the metrics get.

#ifndef CLIENT_SETTINGS_RANK_STATISTICS_H_
#define CLIENT_SETTINGS_RANK_STATISTICS_H_

#include <string>
#include <string_view>
#include <vector>

namespace ranklog::internal {

// Splits RANKLOG_RANK_STATISTICS, such as "train/loss=mean,max;perf/*=max;std", into items: rules
// "GLOB=NAME,NAME" and names for all other metrics. Removes white space around each part.
std::vector<std::string> SplitRankStatistics(std::string_view text);

// The mistakes in the items, one sentence each, with what to do and what Init() uses.
std::vector<std::string> RankStatisticsErrors(const std::vector<std::string>& items);

// Rules that are valid, but may not mean what the user thinks: they have wildcards of the shell. A
// metric may have such a name, so Validate() accepts them.
std::vector<std::string> RankStatisticsHints(const std::vector<std::string>& items);

// The items without mistakes. A rule without a known statistic gets the default ones, so that no
// later rule turns them off.
std::vector<std::string> RepairRankStatistics(const std::vector<std::string>& items);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_RANK_STATISTICS_H_
