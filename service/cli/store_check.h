// Whether the store has all of a run that it says it has: for `ranklog verify`.

#ifndef SERVICE_CLI_STORE_CHECK_H_
#define SERVICE_CLI_STORE_CHECK_H_

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
  uint64_t rows = 0;     // that the rank's streams have by their own figures
  uint64_t there = 0;    // read, each once, with its checksum right
  uint64_t waiting = 0;  // not yet in their run, nor late
  uint64_t late = 0;
  model::Losses losses;
  Findings findings;
};

struct StoreCheck {
  Findings file;                 // of SQLite's own check
  std::vector<RankCheck> ranks;  // ascending
  // The run's rows, made of those of the ranks.
  uint64_t rows = 0;
  uint64_t there = 0;
  Findings findings;

  bool ok() const;  // nothing is damaged or missing; late, lost and waiting rows are not looked at
};

// Reads the whole file and all rows of the run, a few megabytes at a time. What is damaged becomes
// a finding, and what lies behind it is read nevertheless. `progress` is told how many of how many
// rows were read.
//
// `audit` is of the same store. Looks at: SQLite's integrity check; of every batch its checksum,
// its form, its place; of every stream that its rows are numbered without a gap or a repeat up to
// the last one; of the run the same, and that its steps grow.
absl::StatusOr<StoreCheck> CheckStore(
    storage::StoreReader& reader, storage::StoreAudit& audit, const model::Run& run,
    const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_STORE_CHECK_H_
