#include "client/settings/rank_statistics.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/settings/environment.h"
#include "client/settings/validate.h"

namespace ranklog::internal {
namespace {

using StatisticNames = std::vector<std::string>;

constexpr std::array<const char*, 6> kStatistics = {"mean", "min",    "max",
                                                    "std",  "argmin", "argmax"};
// Limits that keep the Hello well below its space in the ring.
constexpr size_t kMaxRules = 32;
constexpr size_t kMaxRuleBytes = 256;
constexpr char kSetting[] = "RANKLOG_RANK_STATISTICS (rank_statistics)";

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

// The known names, or `none` alone.
StatisticNames RepairNames(StatisticNames names) {
  if (names == StatisticNames{"none"}) return names;
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](const std::string& name) { return !IsStatistic(name); }),
              names.end());
  return names;
}

StatisticNames RepairRuleNames(const StatisticNames& names) {
  StatisticNames repaired = RepairNames(names);
  return repaired.empty() ? StatisticNames{"mean", "min", "max"} : repaired;
}

// The mistake in a list of statistics; `of` says whose list it is.
void CheckNames(const std::string& of, const StatisticNames& names,
                std::vector<std::string>* errors) {
  const std::string instead =
      absl::StrCat("; Init() uses ", absl::StrJoin(RepairRuleNames(names), ","));
  StatisticNames unknown;
  bool has_upper_case = false;
  for (const std::string& name : names) {
    if (name == "none" || IsStatistic(name)) continue;
    unknown.push_back(absl::StrCat("\"", name, "\""));
    has_upper_case |= IsStatistic(absl::AsciiStrToLower(name));
  }
  if (!unknown.empty()) {
    errors->push_back(absl::StrCat(of, " has ", absl::StrJoin(unknown, ", "), ": use ",
                                   absl::StrJoin(kStatistics, ", "), " or none",
                                   has_upper_case ? ", in lower case" : "",
                                   of == kSetting ? ", or GLOB=mean" : "", instead));
  } else if (names.size() > 1 && RepairNames(names) != names) {
    errors->push_back(absl::StrCat(
        of, " combines none with other statistics: use none, or a list without it", instead));
  }
}

// Whether the glob contains "=mean" or so, although metrics may have a "=" in their names: a
// separator between rules is missing.
bool ContainsRule(const std::string& glob) {
  for (size_t at = glob.find('='); at != std::string::npos; at = glob.find('=', at + 1)) {
    const size_t end = std::min(glob.find_first_of(",= \t\n\v\f\r", at + 1), glob.size());
    const std::string name = glob.substr(at + 1, end - at - 1);
    if (name == "none" || IsStatistic(name)) return true;
  }
  return false;
}

// Why a rule cannot be used at all; empty if it can.
std::string WhyLeftOut(const std::string& item) {
  if (std::string why = TextError(item, kMaxRuleBytes); !why.empty()) return why;
  const StatisticRule rule = ParseRule(item);
  if (rule.glob.empty()) return " has no glob: write GLOB=mean,max";
  if (!ContainsRule(rule.glob)) return "";
  return absl::StrCat(" is for metrics named \"", rule.glob, "\": write ; between rules");
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
  CheckNames(kSetting, NamesOf(items), &errors);
  size_t number = 0;
  size_t rules = 0;
  std::string last;  // the rule that matches all metrics
  for (const std::string& item : items) {
    if (!IsRule(item)) continue;
    ++number;
    const std::string quoted = TextError(item, kMaxRuleBytes).empty()
                                   ? absl::StrCat("the rule \"", item, "\" of ", kSetting)
                                   : absl::StrCat("rule ", number, " of ", kSetting);
    if (const std::string why = WhyLeftOut(item); !why.empty()) {
      errors.push_back(absl::StrCat(quoted, why, "; Init() leaves it out"));
      continue;
    }
    if (++rules == kMaxRules + 1) {
      errors.push_back(absl::StrCat(kSetting, " has more than ", kMaxRules,
                                    " rules; Init() uses the first ", kMaxRules));
    }
    const StatisticRule rule = ParseRule(item);
    if (rule.names.empty()) {
      errors.push_back(absl::StrCat(quoted, " has no statistic: write GLOB=mean,max; Init() uses ",
                                    absl::StrJoin(RepairRuleNames({}), ",")));
    }
    CheckNames(quoted, rule.names, &errors);
    if (!last.empty()) {
      errors.push_back(absl::StrCat(quoted, " has no effect after \"", last,
                                    "\", which matches all metrics; put it first"));
    } else if (rule.glob == "*") {
      last = item;
    }
  }
  return errors;
}

std::vector<std::string> RankStatisticsHints(const std::vector<std::string>& items) {
  std::vector<std::string> hints;
  for (const std::string& item : RepairRankStatistics(items)) {
    if (!IsRule(item)) continue;
    const std::string glob = ParseRule(item).glob;
    for (size_t at = glob.find_first_of("?["); at != std::string::npos;
         at = glob.find_first_of("?[", at + 1)) {
      const size_t end = glob.find_first_not_of("0123456789", at + 1);
      const bool is_index = glob[at] == '[' && end > at + 1 && glob.substr(end, 1) == "]";
      if (is_index) continue;
      hints.push_back(absl::StrCat("the glob \"", glob, "\" of ", kSetting, " has a ",
                                   glob.substr(at, 1),
                                   ", which stands for itself; * is the only wildcard"));
      break;
    }
  }
  return hints;
}

std::vector<std::string> RepairRankStatistics(const std::vector<std::string>& items) {
  std::vector<std::string> repaired = RepairNames(NamesOf(items));
  size_t rules = 0;
  for (const std::string& item : items) {
    if (!IsRule(item) || !WhyLeftOut(item).empty()) continue;
    if (++rules > kMaxRules) break;
    StatisticRule rule = ParseRule(item);
    rule.names = RepairRuleNames(rule.names);
    repaired.push_back(TextOf(rule));
    if (rule.glob == "*") break;
  }
  return repaired;
}

}  // namespace ranklog::internal
