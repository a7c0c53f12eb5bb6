#include "service/cli/sync/sync_spools.h"

#include <algorithm>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/spools/stranded_spools.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kSpoolPoll = absl::Milliseconds(200);
// A rank that finds no daemon starts one at once. That daemon then opens its store.
constexpr absl::Duration kDaemonStarts = absl::Seconds(2);

}  // namespace

bool SyncSpools::AnyNew() const {
  const std::vector<UnreadSpool> left = FindSpoolsOfDeadRanks(globals_, state_dir_);
  return std::any_of(left.begin(), left.end(),
                     [this](const UnreadSpool& spool) { return tried_.count(spool.path) == 0; });
}

absl::Status SyncSpools::Take(bool holds_lock) {
  const std::vector<UnreadSpool> before = FindSpoolsOfDeadRanks(globals_, state_dir_);
  for (const UnreadSpool& spool : before) tried_.insert(spool.path);
  if (AnotherDaemonReadsSpools(globals_, state_dir_)) return absl::OkStatus();
  if (!holds_lock) {
    const absl::Time deadline = SteadyNow() + kDaemonTakes;
    while (!FindSpoolsOfDeadRanks(globals_, state_dir_).empty() && SteadyNow() < deadline) {
      absl::SleepFor(kSpoolPoll);
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(DrainUnreadSpools(globals_, state_dir_));
  const std::vector<UnreadSpool> after = FindSpoolsOfDeadRanks(globals_, state_dir_);
  if (after.size() < before.size()) {
    std::cout << "took "
              << Counted(UnreadRows(before) - std::min(UnreadRows(after), UnreadRows(before)),
                         "row")
              << " from the " << (before.size() - after.size() == 1 ? "spool" : "spools") << " of "
              << Counted(before.size() - after.size(), "rank") << "\n";
  }
  return absl::OkStatus();
}

absl::Status SyncSpools::CheckAllTaken(Counts counts) const {
  RETURN_IF_ERROR(CheckDaemonOfLiveRanks(counts));
  std::vector<UnreadSpool> left = FindSpoolsOfDeadRanks(globals_, state_dir_);
  std::erase_if(left, [counts](const UnreadSpool& each) { return !counts(each); });
  if (left.empty() || AnotherDaemonReadsSpools(globals_, state_dir_)) {
    return CheckNoneIsStranded(counts);
  }
  return absl::UnavailableError(absl::StrCat(
      "not in the store yet: ", UnreadSpoolsText(left),
      "; a daemon stores them as soon as it can; see its log: ", globals_.Command("daemon-log")));
}

absl::Status SyncSpools::CheckNoneIsStranded(Counts counts) const {
  std::vector<std::string> lines;
  for (const StrandedSpool& spool : FindStrandedSpools(globals_, state_dir_)) {
    if (!counts(spool.ring)) continue;
    lines.push_back(absl::StrCat(Printable(spool.ring.path), ": ", spool.text,
                                 spool.advice.empty() ? "" : "; ", spool.advice));
  }
  if (lines.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrJoin(lines, "\nranklog: "));
}

absl::Status SyncSpools::CheckDaemonOfLiveRanks(Counts counts) const {
  const absl::Time deadline = SteadyNow() + kDaemonStarts;
  while (true) {
    std::vector<UnreadSpool> left = FindUnreadSpools(globals_, state_dir_);
    std::erase_if(left, [counts](const UnreadSpool& each) { return !each.lives || !counts(each); });
    if (left.empty()) return absl::OkStatus();
    if (SteadyNow() > deadline) {
      return absl::UnavailableError(absl::StrCat(UnreadSpoolsText(left), ": ",
                                                 UnreadSpoolsAdvice(globals_, state_dir_, left)));
    }
    absl::SleepFor(kSpoolPoll);
  }
}

}  // namespace ranklog::cli
