#include "service/ingest/former_program.h"

#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ring/spool_reader.h"

namespace ranklog::ingest {

// A process that called exec() has released the rings of its previous program. A process that
// closed descriptors that it does not own has too, but it still runs the same program.
absl::Status CheckFormerProgram(const model::StreamKey& key, const Peer* peer, uint64_t began_us,
                                StreamRegistry& registry) {
  if (peer == nullptr || peer->pid <= 0) return absl::OkStatus();
  for (const LiveStream& other : registry.OthersOf(key)) {
    if (other.peer == nullptr || other.peer->pid != peer->pid) continue;
    if (other.ring == nullptr || other.ring->locked()) continue;
    const absl::StatusOr<SpoolReader> ring = SpoolReader::Open(other.ring->fd());
    v1::Hello former;
    if (!ring.ok() || !former.ParseFromString(ring->hello())) continue;
    if (former.identity().began_us() == began_us) continue;
    registry.SetReplaced(other.key);
    return absl::UnavailableError(
        "the rows of the previous program must be stored first; try again");
  }
  return absl::OkStatus();
}

}  // namespace ranklog::ingest
