// Saves what can be read of a damaged store into a new one.

#ifndef SERVICE_STORAGE_SALVAGE_H_
#define SERVICE_STORAGE_SALVAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/model/session.h"

namespace ranklog::storage {

struct Salvaged {
  struct Stream {
    model::StreamKey key;
    std::string run_id;
    uint64_t saved_rows = 0;
    uint64_t lost_rows = 0;  // that the damaged store says it had
  };
  std::vector<Stream> streams;
  // Batches whose checksum holds for no stream that can be read, or that cannot be read.
  uint64_t lost_batches = 0;

  uint64_t saved_rows() const;
  uint64_t lost_rows() const;
};

// Looks at each record of the store at `path` by itself, with its log of writes and without, and
// reads all whose checksums hold. Works on copies in `scratch`, an empty directory; `path` is only
// read. Where `to` is not empty, writes a new store there: the runs, the streams with their rows in
// order and what is missing counted as losses.with_store, config and summary; run rows are made
// anew from those. All go to `local` only.
//   kNotFound       nothing at `path`
//   kAlreadyExists  a store at `to`
//   kDataLoss       not even the tables can be read
absl::StatusOr<Salvaged> Salvage(const std::string& path, const std::string& scratch,
                                 const std::string& to);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_SALVAGE_H_
