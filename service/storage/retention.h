// Which runs may be removed from the store, and which of them go now. Store::RemoveRun() removes
// one; pipeline/retention_loop.h asks for it, and so does `ranklog rm`.

#ifndef SERVICE_STORAGE_RETENTION_H_
#define SERVICE_STORAGE_RETENTION_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/storage/sqlite.h"

namespace ranklog::storage {

// What may be removed is kept for so long after the run's end, and while the store uses no more
// than so much.
struct KeepLimits {
  absl::Duration keep_for = absl::Hours(7 * 24);  // InfiniteDuration(): age removes nothing
  int64_t keep_bytes = int64_t{4} << 30;          // kUnlimited: size removes nothing
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
};

// Whatever the limits are, a run stays for so long after its end: a rank asks again for so long
// where the answer to its Finish() was lost, and is to find its stream.
inline constexpr absl::Duration kLeastAge = absl::Seconds(10);

struct RemovableRun {
  int64_t id = 0;
  int64_t ended_us = 0;  // Unix time
  uint64_t rows = 0;
};

// The runs that may be removed, of those that had ended by `ended_by_us`, the oldest end first. A
// run may be removed if nothing is left to be done for it, and all of it is elsewhere:
//   it has ended, and so has each of its streams, and all their rows are used;
//   each of its destinations has its rows and its end;
//   one of these is a tracker: of a run that is only local there is no other copy;
//   it is no part of a run of another node (local_only), which is never delivered;
//   no row of it was late, and a tracker refused nothing of it: the store has the only copy.
absl::StatusOr<std::vector<RemovableRun>> RemovableRuns(Database& database, int64_t ended_by_us);

// What a removal takes. Of each, the run and its streams have ended, and all their rows are used.
enum class Removal {
  kDelivered,      // one of RemovableRuns(), whenever it ended
  kNothingWaits,   // its trackers have it: it may be the only copy, though no tracker waits for it
  kWhateverWaits,  // its trackers may lack rows
};
// Whether `removal` takes this run; false too if it is not there.
absl::StatusOr<bool> MayBeRemoved(Database& database, int64_t run, Removal removal);

// Whether a run that may be removed goes now, in a store that uses `used_bytes`. `now` is of the
// wall clock, as the run's end is: one that is set forward makes runs go sooner, one that is set
// back later.
bool MustGo(const RemovableRun& run, int64_t used_bytes, const KeepLimits& limits, absl::Time now);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_RETENTION_H_
