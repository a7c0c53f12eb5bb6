#include "service/storage/database/retention.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace ranklog::storage {
namespace {

// Conditions on `run`. The numbers are those of tables.md: state 0 is a running run, or a live
// stream.
constexpr char kHasEnded[] = "run.state <> 0";
constexpr char kIsAtATracker[] =
    "EXISTS (SELECT 1 FROM delivery WHERE delivery.run = run.id AND kind <> 'local')";
constexpr char kIsDelivered[] =
    "NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.run = run.id AND complete = 0)";
constexpr char kNothingWasRefused[] =
    "NOT EXISTS (SELECT 1 FROM dead_letter WHERE dead_letter.run = run.id)";
constexpr char kNothingWaits[] =
    "NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.run = run.id AND complete = 0 "
    "AND kind <> 'local')";
constexpr char kNothingWasLate[] =
    "NOT EXISTS (SELECT 1 FROM stream WHERE stream.run = run.id AND late_rows <> 0)";
constexpr char kStreamsAreOver[] =
    "NOT EXISTS (SELECT 1 FROM stream WHERE stream.run = run.id "
    "AND (state = 0 OR aggregated_seq < durable_seq))";

constexpr char kNothingJoins[] =
    "NOT EXISTS (SELECT 1 FROM stream WHERE stream.run = run.id AND joins = 1 AND joined = 0 "
    "AND joined_seq < durable_seq)";

std::string WhereRemovable(Removal removal = Removal::kDelivered) {
  std::string where = absl::StrCat("FROM run WHERE ", kHasEnded, " AND ", kStreamsAreOver);
  switch (removal) {
    case Removal::kDelivered:
      absl::StrAppend(&where, " AND ", kIsAtATracker, " AND ", kIsDelivered, " AND ",
                      kNothingWasRefused, " AND ", kNothingWasLate, " AND ", kNothingJoins);
      break;
    case Removal::kNothingWaits:
      absl::StrAppend(&where, " AND ", kNothingWaits, " AND ", kNothingJoins);
      break;
    case Removal::kWhateverWaits:
      break;
  }
  return where;
}

}  // namespace

absl::StatusOr<std::vector<RemovableRun>> RemovableRuns(Database& database, int64_t ended_by_us) {
  std::vector<RemovableRun> runs;
  Query query =
      database.Select(absl::StrCat("SELECT run.id, run.ended_us, run.rows ", WhereRemovable(),
                                   " AND run.ended_us <= ?1 ORDER BY run.ended_us, run.id"),
                      {ended_by_us});
  while (query.Next()) runs.push_back({query.Integer(0), query.Integer(1), query.Unsigned(2)});
  RETURN_IF_ERROR(query.status());
  return runs;
}

absl::StatusOr<bool> MayBeRemoved(Database& database, int64_t run, Removal removal) {
  ASSIGN_OR_RETURN(
      const int64_t count,
      database.SelectInteger(
          absl::StrCat("SELECT count(*) ", WhereRemovable(removal), " AND run.id = ?1"), {run}));
  return count != 0;
}

bool MustGo(const RemovableRun& run, int64_t used_bytes, const KeepLimits& limits, absl::Time now) {
  const absl::Duration age = now - absl::FromUnixMicros(run.ended_us);
  if (age < kLeastAge) return false;
  return age >= limits.keep_for || used_bytes > limits.keep_bytes;
}

}  // namespace ranklog::storage
