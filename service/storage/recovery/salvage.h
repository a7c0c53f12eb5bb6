// Copies the readable part of a damaged store into a new store.

#ifndef SERVICE_STORAGE_RECOVERY_SALVAGE_H_
#define SERVICE_STORAGE_RECOVERY_SALVAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/model/session.h"
#include "service/storage/recovery/remains.h"

namespace ranklog::storage {

struct Salvaged {
  struct Stream {
    model::StreamKey key;
    std::string run_id;
    uint64_t saved_rows = 0;
    uint64_t lost_rows = 0;  // rows that the damaged store had, by its counts
  };
  std::vector<Stream> streams;
  uint64_t damaged_records = 0;  // Remains::damaged_records()

  uint64_t saved_rows() const;
  uint64_t lost_rows() const;
};

struct SalvageOptions {
  std::string scratch;          // an empty directory, for working copies
  std::string to;               // the state directory of the new store; empty: write nothing
  Remains::ProgressFn reading;  // in records
  Remains::ProgressFn saving;   // in rows
};

// Reads each record of the store at `path` separately, with its write-ahead log and without, and
// takes all records whose checksums match. Does not write to `path`. Writes a new store: the runs,
// the streams with their rows in order, config and summary. Missing rows are counted as
// losses.with_store. All runs get only the destination `local`. Rows of runs are not made; the
// aggregation does that later.
//   kNotFound           there is nothing at `path`
//   kAlreadyExists      there is a store at `to`
//   kResourceExhausted  there is no room for the copies
//   kDataLoss           the tables cannot be read, or contain no run
absl::StatusOr<Salvaged> Salvage(const std::string& path, const SalvageOptions& options);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_RECOVERY_SALVAGE_H_
