// Detects that the process of a rank has called exec().

#ifndef SERVICE_INGEST_FORMER_PROGRAM_H_
#define SERVICE_INGEST_FORMER_PROGRAM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "service/ingest/ring/peer.h"
#include "service/ingest/stream_registry.h"
#include "service/model/session.h"

namespace ranklog::ingest {

// kUnavailable if the process `peer` ran another program before, by exec(), and a stream of that
// program has not ended yet. The rows of that program must be stored first, so this function marks
// that stream in the registry as replaced. `began_us` is v1::Identity::began_us of the current
// program; `peer` may be null.
absl::Status CheckFormerProgram(const model::StreamKey& key, const Peer* peer, uint64_t began_us,
                                StreamRegistry& registry);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_FORMER_PROGRAM_H_
