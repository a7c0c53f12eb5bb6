// Decides which runs may be removed from the store, and which must go now. Store::RemoveRun()
// removes a run; pipeline/retention_loop.h and `ranklog rm` request it.

#ifndef SERVICE_STORAGE_DATABASE_RETENTION_H_
#define SERVICE_STORAGE_DATABASE_RETENTION_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/storage/database/sqlite.h"

namespace ranklog::storage {

// How long a removable run is kept after its end, and up to which size of the store.
struct KeepLimits {
  absl::Duration keep_for = absl::Hours(7 * 24);  // InfiniteDuration(): no limit by age
  int64_t keep_bytes = int64_t{4} << 30;          // kUnlimited: no limit by size
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
};

// The minimum time that a run is kept after its end, whatever the limits are. If the answer to a
// rank's Finish() was lost, the rank repeats it for this long, and must find its stream.
inline constexpr absl::Duration kLeastAge = absl::Seconds(10);

struct RemovableRun {
  int64_t id = 0;
  int64_t ended_us = 0;  // Unix time
  uint64_t rows = 0;
};

// The runs that may be removed, of those that had ended by `ended_by_us`, the oldest end first. A
// run may be removed if all of these hold:
//   - The run and all its streams have ended, and all their rows are aggregated.
//   - Each of its destinations has its rows and its end.
//   - One of the destinations is a tracker. A run that is only local has no other copy. So has most
//     often the part of another node's run (local_only), which few trackers get.
//   - None of its rows waits for rank 0's node.
//   - None of its rows was late or refused by a tracker, because the store has the only copy of
//     those.
absl::StatusOr<std::vector<RemovableRun>> RemovableRuns(Database& database, int64_t ended_by_us);

// Which runs a removal accepts. For each value, the run and its streams must have ended, and all
// their rows must be aggregated.
enum class Removal {
  kDelivered,      // a run of RemovableRuns(), whenever it ended
  kNothingWaits,   // neither a tracker nor rank 0's node waits for it; it may be the only copy
  kWhateverWaits,  // they may lack rows
};
// Whether `removal` accepts this run. False if the run does not exist.
absl::StatusOr<bool> MayBeRemoved(Database& database, int64_t run, Removal removal);

// Whether a removable run must go now, in a store that uses `used_bytes`. `now` and the run's end
// are wall-clock times: if the clock is set forward, runs go sooner; if it is set back, later.
bool MustGo(const RemovableRun& run, int64_t used_bytes, const KeepLimits& limits, absl::Time now);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DATABASE_RETENTION_H_
