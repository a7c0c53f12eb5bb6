// Brings what ranks left that are gone into the store, and ends their streams.

#ifndef SERVICE_INGEST_ORPHANS_H_
#define SERVICE_INGEST_ORPHANS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/ring_file.h"
#include "service/ingest/ring_reader.h"
#include "service/ingest/stream_registry.h"
#include "service/storage/store.h"

namespace ranklog::ingest {

// Who is gone is for the caller to know. Not thread-safe; blocks until what it read is durable.
class Orphans {
 public:
  // Both outlive this.
  Orphans(const IngestContext* context, storage::StoreReader* reader)
      : context_(*context), reader_(reader) {}

  // Drains, ends and forgets a stream whose rank is gone, and removes its ring. False: the store is
  // closing, or failed; try again.
  bool EndGone(const LiveStream& live);
  // The same for a ring of no live stream: attaches by the Hello in it before. A ring of which the
  // store has all is only removed.
  //   kUnavailable  the store is closing, or failed: try again
  //   any other     it cannot be read, and is left alone
  absl::Status Adopt(const std::shared_ptr<const RingFile>& file, const RingReader& ring);

 private:
  bool End(const LiveStream& live, const RingReader* ring, const std::string& reason);
  // Whether the store has all of the ring, and its stream has ended.
  bool Known(const model::StreamKey& key, const RingReader& ring);

  const IngestContext& context_;
  storage::StoreReader* const reader_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_H_
