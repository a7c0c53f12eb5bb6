// The ring of a rank or of a forked child that attaches.

#ifndef SERVICE_INGEST_RANK_RING_H_
#define SERVICE_INGEST_RANK_RING_H_

#include <memory>

#include "absl/status/status.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/ring/peer.h"
#include "service/ingest/ring/ring_file.h"
#include "service/storage/directories/spool_dirs.h"

namespace ranklog::ingest {

// Opens the ring that the Hello of `peer` names. Null if `peer` is null, or if the ring cannot be
// opened; the latter is counted, and the rank is asked for the descriptor.
std::shared_ptr<const RingFile> OpenRankRing(const v1::Hello& hello, const Peer* peer,
                                             IngestCounters& counters);

// Records the ring's directory, where the next daemon will search. Does nothing if `dirs` or `ring`
// is null, or if the ring has no path: then no other process may know where the directory is.
absl::Status RememberDirOf(const RingFile* ring, storage::SpoolDirs* dirs);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RANK_RING_H_
