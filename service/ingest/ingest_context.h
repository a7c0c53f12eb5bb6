// The objects that ingest uses, and its counters.

#ifndef SERVICE_INGEST_INGEST_CONTEXT_H_
#define SERVICE_INGEST_INGEST_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/ingest/attach.h"
#include "service/ingest/notice_board.h"
#include "service/ingest/ring/content_dir.h"
#include "service/ingest/ring/peer.h"
#include "service/ingest/stream_registry.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/directories/spool_dirs.h"

namespace ranklog::ingest {

struct IngestCounters {
  std::atomic<uint64_t> attaches{0};
  // Refusals of clients that behave unlike libranklog. The stream was ended with the reason.
  std::atomic<uint64_t> refused_messages{0};  // malformed, or refused by the store
  std::atomic<uint64_t> refused_shapes{0};    // more shapes or keys than a stream or ring may have
  std::atomic<uint64_t> refused_streams{0};   // more streams than a node may have
  std::atomic<uint64_t> refused_versions{0};  // another protocol version
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> unreadable_items{0};  // dropped, and counted among the lost items
  std::atomic<uint64_t> rows{0};              // durable rows, resent rows included
  std::atomic<uint64_t> unseen_rings{0};      // attaches whose ring could not be opened by its path
  // Times that a stream was not read because the store was behind.
  std::atomic<uint64_t> paused_streams{0};
  std::atomic<uint64_t> orphans{0};        // rings drained after the death of their rank
  std::atomic<uint64_t> orphan_rows{0};    // rows found in them
  std::atomic<uint64_t> damaged_rings{0};  // readable only in part, and set aside
  // Left unchanged, for example because of another version.
  std::atomic<uint64_t> unreadable_rings{0};
};

// The objects that the RPCs use. All of them outlive the gRPC server.
struct IngestContext {
  pipeline::StoreLoop* store;
  Attacher* attacher;  // used only on the store loop's thread
  StreamRegistry* registry;
  PeerTable* peers;
  IngestCounters* counters;
  Credentials credentials;
  // The next two are called from any thread after a commit. They must not block.
  // The run may be new, or may have new destinations.
  std::function<void(int64_t run)> run_attached;
  // A stream of the run has new rows or updates, or has ended.
  std::function<void(int64_t run)> run_changed;
  // Calls `then` on any thread, once the rows of all ranks that are dead now are in the store.
  std::function<void(absl::AnyInvocable<void()> then)> when_caught_up;
  std::function<absl::Time()> wall_clock = absl::Now;  // for timestamps in data
  // What the user of rank 0 should know about the ranks of other nodes. Null: nothing.
  std::function<absl::optional<v1::Notice>(const model::Session&)> nodes_notice = nullptr;
  NoticeBoard* notices = nullptr;            // null: no notices are sent
  storage::SpoolDirs* spool_dirs = nullptr;  // null: no directories are remembered
  const ContentDir* content = nullptr;       // null: large items are not accepted
  std::string state_dir = "";                // of the store; empty: not sent to ranks
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_INGEST_CONTEXT_H_
