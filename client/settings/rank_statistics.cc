#include "client/settings/rank_statistics.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/base/keys.h"
#include "client/settings/environment.h"

namespace ranklog::internal {
namespace {

using StatisticNames = std::vector<std::string>;

constexpr std::array<const char*, 6> kStatistics = {"mean", "min",    "max",
                                                    "std",  "argmin", "argmax"};
// Limits that keep the Hello well below its space in the ring.
constexpr size_t kMaxRules = 32;
constexpr size_t kMaxRuleBytes = 256;

struct StatisticRule {
  std::string glob;
  StatisticNames names;
};

bool IsRule(const std::string& item) { return item.find('=') != std::string::npos; }

// The last "=" ends the glob, because metrics may have one in their names.
StatisticRule ParseRule(const std::string& item) {
  const size_t end = item.rfind('=');
  return {item.substr(0, end), SplitList(std::string_view(item).substr(end + 1))};
}

std::string TextOf(const StatisticRule& rule) {
  return absl::StrCat(rule.glob, "=", absl::StrJoin(rule.names, ","));
}

StatisticNames NamesOf(const std::vector<std::string>& items) {
  StatisticNames names;
  std::copy_if(items.begin(), items.end(), std::back_inserter(names),
               [](const std::string& item) { return !IsRule(item); });
  return names;
}

bool IsStatistic(const std::string& name) {
  return std::find(kStatistics.begin(), kStatistics.end(), name) != kStatistics.end();
}

void CheckNames(const StatisticNames& names, std::vector<std::string>* errors) {
  for (const std::string& name : names) {
    if (name == "none" && names.size() > 1) {
      errors->push_back(
          "rank_statistics combines none with other statistics: use none, or a list without it");
    } else if (name != "none" && !IsStatistic(name)) {
      errors->push_back(absl::StrCat("rank_statistics has \"", name, "\": use ",
                                     absl::StrJoin(kStatistics, ", "), " or none, or GLOB=mean"));
    }
  }
}

// The known names, or `none` alone.
StatisticNames RepairNames(StatisticNames names) {
  if (names == StatisticNames{"none"}) return names;
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](const std::string& name) { return !IsStatistic(name); }),
              names.end());
  return names;
}

bool FitsTheRing(const std::string& item) {
  return item.size() <= kMaxRuleBytes && IsUtf8(item) && item.find('\0') == std::string::npos;
}

}  // namespace

std::vector<std::string> SplitRankStatistics(std::string_view text) {
  std::vector<std::string> items;
  for (absl::string_view part : absl::StrSplit(absl::string_view(text.data(), text.size()), ';')) {
    part = absl::StripAsciiWhitespace(part);
    const std::string item(part.data(), part.size());
    if (IsRule(item)) {
      StatisticRule rule = ParseRule(item);
      absl::StripTrailingAsciiWhitespace(&rule.glob);
      items.push_back(TextOf(rule));
    } else {
      for (std::string& name : SplitList(item)) items.push_back(std::move(name));
    }
  }
  return items;
}

std::vector<std::string> RankStatisticsErrors(const std::vector<std::string>& items) {
  std::vector<std::string> errors;
  CheckNames(NamesOf(items), &errors);
  size_t rules = 0;
  std::string last;  // the rule that matches all metrics
  for (const std::string& item : items) {
    if (!IsRule(item)) continue;
    const StatisticRule rule = ParseRule(item);
    if (!FitsTheRing(item)) {
      errors.push_back(
          absl::StrCat("a rule of rank_statistics is not UTF-8, holds a zero byte, or "
                       "is longer than ",
                       kMaxRuleBytes, " bytes"));
      continue;
    }
    if (++rules == kMaxRules + 1) {
      errors.push_back(absl::StrCat("rank_statistics has more than ", kMaxRules, " rules"));
    }
    if (rule.glob.empty() || rule.names.empty()) {
      errors.push_back(
          absl::StrCat("rank_statistics has the rule \"", item, "\": write GLOB=mean,max"));
    }
    CheckNames(rule.names, &errors);
    if (!last.empty()) {
      errors.push_back(absl::StrCat("rank_statistics: \"", item, "\" has no effect after \"", last,
                                    "\", which matches all metrics; put it first"));
    } else if (rule.glob == "*") {
      last = item;
    }
  }
  return errors;
}

std::vector<std::string> RepairRankStatistics(const std::vector<std::string>& items) {
  std::vector<std::string> repaired = RepairNames(NamesOf(items));
  size_t rules = 0;
  for (const std::string& item : items) {
    if (!IsRule(item) || !FitsTheRing(item)) continue;
    StatisticRule rule = ParseRule(item);
    if (rule.glob.empty() || ++rules > kMaxRules) continue;
    rule.names = RepairNames(rule.names);
    if (rule.names.empty()) rule.names = {"mean", "min", "max"};
    repaired.push_back(TextOf(rule));
    if (rule.glob == "*") break;
  }
  return repaired;
}

}  // namespace ranklog::internal
