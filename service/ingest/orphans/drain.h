// Copies the contents of a ring into the store.

#ifndef SERVICE_INGEST_ORPHANS_DRAIN_H_
#define SERVICE_INGEST_ORPHANS_DRAIN_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/ingest/ring/spool_reader.h"
#include "service/pipeline/store_loop.h"

namespace ranklog::ingest {

struct Drained {
  uint64_t rows = 0;    // found in the ring; the store drops rows that it already has
  absl::Status damage;  // not OK: the ring is readable only in part; the readable part was stored
};

// Stores a part of a ring. Records that the store already has change nothing.
absl::Status StorePart(const SpoolReader::Part& part, int64_t stream, storage::Store& store);

// Stores all rows, shapes, items and losses of the ring, a few MiB per commit. Blocks until they
// are durable.
//   kUnavailable     the store is closing
//   any other error  an error of the store, for example of its disk
//
// After either error the ring still holds the missing part. Read it again later, with a new
// SpoolReader.
absl::StatusOr<Drained> DrainRing(SpoolReader& ring, int64_t stream, pipeline::StoreLoop& store,
                                  const ContentDir* content);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_DRAIN_H_
