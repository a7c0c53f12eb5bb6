#include "service/model/rank_statistics.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ranklog::model {
namespace {

constexpr absl::string_view kStatisticPrefix = "rank_";

// The bits of the known ones of `names`.
uint32_t StatisticBits(const std::vector<std::string>& names) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < std::size(kRankStatistics); ++i) {
    if (std::find(names.begin(), names.end(), kRankStatistics[i]) != names.end()) bits |= 1u << i;
  }
  return bits;
}

// A rule without "=" has an empty glob, which matches no metric.
std::pair<std::string, std::vector<std::string>> SplitRule(const std::string& rule) {
  const size_t end = rule.rfind('=');
  if (end == std::string::npos) return {};
  return {rule.substr(0, end), absl::StrSplit(rule.substr(end + 1), ',')};
}

bool Matches(absl::string_view glob, absl::string_view text) {
  const size_t star = glob.find('*');
  if (star == absl::string_view::npos) return glob == text;
  if (!absl::StartsWith(text, glob.substr(0, star))) return false;
  text.remove_prefix(star);
  glob.remove_prefix(star + 1);
  // Each text between two stars at its first place, and the text after the last star at the end.
  for (size_t next = glob.find('*'); next != absl::string_view::npos; next = glob.find('*')) {
    const size_t place = text.find(glob.substr(0, next));
    if (place == absl::string_view::npos) return false;
    text.remove_prefix(place + next);
    glob.remove_prefix(next + 1);
  }
  return absl::EndsWith(text, glob);
}

}  // namespace

absl::string_view MetricOfStatistic(absl::string_view key) {
  if (!absl::StartsWith(key, kStatisticPrefix)) return {};
  key.remove_prefix(kStatisticPrefix.size());
  const size_t slash = key.find('/');
  const absl::string_view name = key.substr(0, slash);
  const bool known = name == kRankCount ||
                     std::find(std::begin(kRankStatistics), std::end(kRankStatistics), name) !=
                         std::end(kRankStatistics);
  return known && slash != absl::string_view::npos ? key.substr(slash + 1) : absl::string_view();
}

RankStatistics::RankStatistics(const std::vector<std::string>& names,
                               const std::vector<std::string>& rules) {
  for (const std::string& rule : rules) {
    const auto [glob, listed] = SplitRule(rule);
    rules_.push_back({glob, StatisticBits(listed)});
  }
  rules_.push_back(
      {"*", StatisticBits(names.empty() ? std::vector<std::string>{"mean", "min", "max"} : names)});
}

RankStatistics RankStatistics::OfRun(const RunSettings& settings) {
  if (settings.strategy == LogStrategy::kAll) return RankStatistics({"none"});
  return RankStatistics(settings.rank_statistics, settings.rank_statistic_rules);
}

uint32_t RankStatistics::Of(absl::string_view metric) const {
  return std::find_if(rules_.begin(), rules_.end(),
                      [&](const Rule& rule) { return Matches(rule.glob, metric); })
      ->statistics;
}

bool RankStatistics::any() const {
  for (const Rule& rule : rules_) {
    if (rule.statistics != 0) return true;
    if (rule.glob == "*") break;  // no metric reaches the rules after it
  }
  return false;
}

std::vector<std::string> RankStatisticsErrors(const std::vector<std::string>& names,
                                              const std::vector<std::string>& rules) {
  std::vector<std::string> errors;
  const auto check = [&errors](const std::vector<std::string>& listed) {
    for (const std::string& name : listed) {
      const bool known = name == "none" || StatisticBits({name}) != 0;
      if (!known) errors.push_back(absl::StrCat("unknown rank statistic '", name, "'"));
      if (name == "none" && listed.size() > 1) {
        errors.push_back("the rank statistic 'none' excludes all others");
      }
    }
  };
  check(names);
  for (const std::string& rule : rules) {
    const auto [glob, listed] = SplitRule(rule);
    if (glob.empty())
      errors.push_back(absl::StrCat("rank statistics without a glob: '", rule, "'"));
    check(listed);
  }
  return errors;
}

}  // namespace ranklog::model
