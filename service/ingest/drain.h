// Brings what a dead rank left in its ring into the store.

#ifndef SERVICE_INGEST_DRAIN_H_
#define SERVICE_INGEST_DRAIN_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/ingest/ring_reader.h"
#include "service/pipeline/store_loop.h"

namespace ranklog::ingest {

struct Drained {
  uint64_t rows = 0;  // found in the ring; the store drops those that it had
  absl::Status
      damage;  // not OK: the ring is readable only up to a point, and what came before it was taken
};

// Stores all rows, shapes, controls and losses of the ring, a few MiB per commit. Blocks until they
// are durable.
//   kUnavailable       the store is closing
//   any other error    of the store, such as of its disk
// After both the ring still has what is missing: read it again later, from a new RingReader.
absl::StatusOr<Drained> DrainRing(RingReader& ring, int64_t stream, pipeline::StoreLoop& store,
                                  const std::function<absl::Time()>& wall_clock);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_DRAIN_H_
