// Saves what can be read of a damaged store into a new one.

#ifndef SERVICE_STORAGE_SALVAGE_H_
#define SERVICE_STORAGE_SALVAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/model/session.h"
#include "service/storage/remains.h"

namespace ranklog::storage {

struct Salvaged {
  struct Stream {
    model::StreamKey key;
    std::string run_id;
    uint64_t saved_rows = 0;
    uint64_t lost_rows = 0;  // that the damaged store says it had
  };
  std::vector<Stream> streams;
  uint64_t damaged_records = 0;  // Remains::damaged_records()

  uint64_t saved_rows() const;
  uint64_t lost_rows() const;
};

struct SalvageOptions {
  std::string scratch;        // an empty directory, for working copies
  std::string to;             // the state directory of the new store; empty: only look
  Remains::Progress reading;  // in records
  Remains::Progress saving;   // in rows
};

// Looks at each record of the store at `path` by itself, with its log of writes and without, and
// takes all whose checksums hold; `path` is only read. Writes a new store: the runs, the streams
// with their rows in order and what is missing counted as losses.with_store, config and summary.
// All go to `local` only, and the rows of runs are not made: that is the aggregation's work.
//   kNotFound           nothing at `path`
//   kAlreadyExists      a store at `to`
//   kResourceExhausted  no room for the copies
//   kDataLoss           not even the tables can be read, or no run in them
absl::StatusOr<Salvaged> Salvage(const std::string& path, const SalvageOptions& options);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_SALVAGE_H_
