// Whether the store has all of a run that it says it has: for `ranklog verify`.

#ifndef SERVICE_CLI_STORE_CHECK_H_
#define SERVICE_CLI_STORE_CHECK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/cli/findings.h"
#include "service/model/run.h"
#include "service/storage/store.h"
#include "service/storage/store_audit.h"

namespace ranklog::cli {

// Over all the rank's streams.
struct RankCheck {
  uint32_t rank = 0;
  uint64_t rows = 0;   // that the rank's streams have by their own figures
  uint64_t there = 0;  // read, each once, with its checksum right
  // What became of them. Of a primary, what is neither has a row of the run each.
  uint64_t waiting = 0;   // their steps are open
  uint64_t late = 0;      // came after their step was closed
  uint64_t replayed = 0;  // logged again from a checkpoint on, so beside what trackers have
  uint64_t merged = 0;    // of a primary: share the row of their step, or have no metrics
  model::Losses losses;
  Findings findings;

  uint64_t missing() const { return rows - std::min(rows, there); }
  // Those with a row of the run, or of another rank than the primary and not among the above.
  uint64_t placed() const {
    const uint64_t others = missing() + waiting + late + replayed + merged;
    return rows - std::min(rows, others);
  }
};

// All ranks together: `rows` are the sum of the others, if the store is sound.
struct RowSum {
  uint64_t rows = 0;
  uint64_t placed = 0;
  uint64_t merged = 0;
  uint64_t replayed = 0;
  uint64_t late = 0;
  uint64_t waiting = 0;
  uint64_t missing = 0;
  bool fits_run = true;  // the primary's make as many rows of the run and replays as it has

  bool holds() const {
    return fits_run && rows == placed + merged + replayed + late + waiting + missing;
  }
};

struct StoreCheck {
  Findings file;                 // of SQLite's own check
  std::vector<RankCheck> ranks;  // ascending
  // The run's rows, made of those of the ranks.
  uint64_t rows = 0;
  uint64_t there = 0;
  uint64_t replays = 0;  // beside them
  uint64_t replays_there = 0;
  bool fits_run = true;  // see RowSum
  Findings findings;

  RowSum sum() const;
  bool ok() const;  // nothing is damaged or missing; late, lost and waiting rows are not looked at
};

// Reads the whole file and all rows of the run, a few megabytes at a time. What is damaged becomes
// a finding, and what lies behind it is read nevertheless. `progress` is told how many of how many
// rows were read.
//
// `audit` is of the same store. Looks at: SQLite's integrity check; of every batch its checksum,
// its form, its place; of every stream that its rows are numbered without a gap or a repeat up to
// the last one; of the run the same, and that its steps grow; that each row of the primary rank has
// a row of the run or is counted as something else.
absl::StatusOr<StoreCheck> CheckStore(
    storage::StoreReader& reader, storage::StoreAudit& audit, const model::Run& run,
    const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_STORE_CHECK_H_
