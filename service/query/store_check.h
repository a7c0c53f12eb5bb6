// Checks for `ranklog verify` whether the store has all rows that its counts claim for a run.

#ifndef SERVICE_QUERY_STORE_CHECK_H_
#define SERVICE_QUERY_STORE_CHECK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/model/run.h"
#include "service/query/findings.h"
#include "service/storage/database/store_audit.h"
#include "service/storage/store_reader.h"

namespace ranklog::query {

// Totals over all streams of the rank.
struct RankCheck {
  uint32_t rank = 0;
  uint64_t rows = 0;    // rows according to the counters of the rank's streams
  uint64_t intact = 0;  // rows that were read, each once, with a correct checksum
  // Rows by their result. For a primary rank, each remaining row has its own row of the run.
  uint64_t waiting = 0;   // their steps are open
  uint64_t late = 0;      // arrived after their step was closed
  uint64_t replayed = 0;  // logged again, starting from a checkpoint; not among the tracker's rows
  // Of a primary: in the row of another row of the same step, or without metrics.
  uint64_t merged = 0;
  uint64_t items = 0;         // items according to the counters of the rank's streams
  uint64_t intact_items = 0;  // items that were read, with a correct checksum
  uint64_t lost_items = 0;    // lost with an earlier store, or unreadable; not among `items`
  model::Losses losses;
  Findings findings;

  uint64_t missing() const { return rows - std::min(rows, intact); }
  // Rows that have a row of the run. For ranks other than the primary: rows that are none of the
  // above.
  uint64_t placed() const {
    const uint64_t others = missing() + waiting + late + replayed + merged;
    return rows - std::min(rows, others);
  }
};

// Sums over all ranks. In a sound store, `rows` is the sum of the others.
struct RowSum {
  uint64_t rows = 0;
  uint64_t placed = 0;
  uint64_t merged = 0;
  uint64_t replayed = 0;
  uint64_t late = 0;
  uint64_t waiting = 0;
  uint64_t missing = 0;
  bool fits_run = true;  // the run has as many rows and replays as the primary rank's rows give

  bool holds() const {
    return fits_run && rows == placed + merged + replayed + late + waiting + missing;
  }
};

struct StoreCheck {
  Findings file;                 // findings of SQLite's own check
  std::vector<RankCheck> ranks;  // ascending
  // The run's rows, which were made from the rows of the ranks.
  uint64_t rows = 0;
  uint64_t intact = 0;
  uint64_t replays = 0;  // in addition to `rows`
  uint64_t intact_replays = 0;
  bool fits_run = true;  // see RowSum
  Findings findings;

  RowSum sum() const;
  bool ok() const;  // nothing is damaged or missing; ignores late, lost and waiting rows
};

// Reads the whole file and all rows of the run, a few megabytes at a time. Damage becomes a
// finding, and the rows after it are read too. `progress` receives the number of rows read and the
// total. `audit` must be of the same store.
//
// Checks:
//   - SQLite's integrity check
//   - the checksum, the format and the position of every batch
//   - rows of each stream are numbered up to the last one, without gaps or repeats
//   - the same for rows of the run, and that its steps increase
//   - each row of the primary rank has a row of the run, or is counted as something else
//   - the checksum and the format of every item, and that each stream has as many as it counts
absl::StatusOr<StoreCheck> CheckStore(
    storage::StoreReader& reader, storage::StoreAudit& audit, const model::Run& run,
    const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace ranklog::query

#endif  // SERVICE_QUERY_STORE_CHECK_H_
