// Attaches a stream by its ring, without a connection.

#ifndef SERVICE_INGEST_ORPHANS_RING_ATTACH_H_
#define SERVICE_INGEST_ORPHANS_RING_ATTACH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/ring/ring_file.h"
#include "service/ingest/ring/spool_reader.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::ingest {

// The session that the Hello in a ring describes.
//   kDataLoss  the Hello is unreadable, or of another ring
//   or         as ToSession()
absl::StatusOr<model::Session> SessionOf(const SpoolReader& ring);

// Attaches the stream in the store, and makes it known in the registry. Blocks until that is
// durable. `ring` was not read yet.
absl::StatusOr<model::Stream> AttachRing(const IngestContext& context, model::Session session,
                                         const SpoolReader& ring,
                                         const std::shared_ptr<const RingFile>& file);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_RING_ATTACH_H_
