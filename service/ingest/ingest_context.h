// What ingest works with, and what it counts.

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
#include "service/ingest/peer.h"
#include "service/ingest/stream_registry.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/spool_dirs.h"

namespace ranklog::ingest {

struct IngestCounters {
  std::atomic<uint64_t> attaches{0};
  // Of clients that do what libranklog does not; their stream was ended with the reason.
  std::atomic<uint64_t> refused_messages{0};   // malformed, or what the store does not take
  std::atomic<uint64_t> refused_too_large{0};  // messages of streams
  std::atomic<uint64_t> refused_shapes{0};     // more shapes or keys than a stream or ring may have
  std::atomic<uint64_t> refused_streams{0};    // more than the node may have
  std::atomic<uint64_t> refused_versions{0};   // of another protocol
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> rows{0};          // durable, resent ones included
  std::atomic<uint64_t> unseen_rings{0};  // attaches whose ring could not be opened by its path
  std::atomic<uint64_t> paused_streams{
      0};                                // times a stream was not read because the store was behind
  std::atomic<uint64_t> orphans{0};      // rings drained after their rank's death
  std::atomic<uint64_t> orphan_rows{0};  // found in them
  std::atomic<uint64_t> damaged_rings{0};  // readable only in part, and set aside
  std::atomic<uint64_t> left_rings{0};     // of another version, say: they stay as they are
};

// What the RPCs work with. All of it outlives the gRPC server.
struct IngestContext {
  pipeline::StoreLoop* store;
  Attacher* attacher;  // of the store loop's thread
  StreamRegistry* registry;
  PeerTable* peers;
  IngestCounters* counters;
  Credentials credentials;
  // Called from any thread after a commit; must not block.
  std::function<void(int64_t run)>
      run_attached;                              // the run may be new, or may have new destinations
  std::function<void(int64_t run)> run_changed;  // its streams have rows, updates, or an end
  // Calls `then` on any thread, once what the ranks that are dead by now left is in the store.
  std::function<void(absl::AnyInvocable<void()> then)> when_caught_up;
  std::function<absl::Time()> wall_clock = absl::Now;  // stamps data
  NoticeBoard* notices = nullptr;                      // null: nobody is told anything
  storage::SpoolDirs* spool_dirs = nullptr;            // null: none are remembered
  std::string state_dir = "";                          // of the store; empty: ranks are not told it
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_INGEST_CONTEXT_H_
