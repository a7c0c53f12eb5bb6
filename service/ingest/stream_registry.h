// The streams that have not ended, with their connections and rings.

#ifndef SERVICE_INGEST_STREAM_REGISTRY_H_
#define SERVICE_INGEST_STREAM_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "service/ingest/ring/peer.h"
#include "service/ingest/ring/ring_file.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::ingest {

struct LiveStream {
  model::StreamKey key;
  int64_t id = 0;                        // id in the store
  int64_t run = 0;                       // id in the store
  int64_t pid = 0;                       // as sent by the rank
  std::string process{};                 // Launch::process; empty: unknown
  uint64_t durable_seq = 0;              // rows up to this one are committed
  uint64_t durable_item = 0;             // items up to this one are committed
  std::shared_ptr<const RingFile> ring;  // shared with the code that drains it; null: not seen yet
  // Shared with other streams of the process; null: not seen since the daemon's start.
  std::shared_ptr<const Peer> peer;
  uint64_t attachment = 0;  // 0: no connection
  bool replaced = false;    // its process runs another program now
};

// A stream that ended by Finish(). Its rank counts the rows that Log() refuses after that only in
// the ring.
struct FinishedStream {
  int64_t id = 0;  // id in the store
  std::shared_ptr<const RingFile> ring;
  std::shared_ptr<const Peer> peer;  // null: not seen since the daemon's start
  model::Losses losses;              // as of Finish()
};

// Thread-safe. Updated by the streams' RPCs; read by RankWatch.
class StreamRegistry {
 public:
  static constexpr size_t kMaxStreams = 4096;  // each may hold five descriptors
  // Each holds a descriptor or two until its Run is destroyed or its process ends. With a hard limit
  // of 256 descriptors, ranks still get the rest.
  static constexpr size_t kMaxFinished = 32;

  // `on_change` is called without a lock, when a stream lost its connection or a new peer must be
  // watched.
  explicit StreamRegistry(std::function<void()> on_change) : on_change_(std::move(on_change)) {}

  // Adds a stream that the store lists as live. Nothing else is known of it, except possibly the
  // ring that its process left.
  void AddKnown(const model::Stream& stream, std::shared_ptr<const RingFile> ring = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Records the attach of a rank. Returns the number of the attachment. Older attachments of this
  // stream are ignored from now on.
  uint64_t Attach(const model::Stream& stream, std::shared_ptr<const RingFile> ring,
                  std::shared_ptr<const Peer> peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for a known stream whose ring is read while its process lives, without a connection. 0:
  // it has ended meanwhile.
  uint64_t BeginReading(const model::StreamKey& key, std::shared_ptr<const RingFile> ring,
                        std::shared_ptr<const Peer> peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records that the connection of that attachment is closed, or that its ring is not read any more.
  void Detach(const model::StreamKey& key, uint64_t attachment) ABSL_LOCKS_EXCLUDED(mutex_);
  // Each has a lower bound for what is committed.
  void SetDurable(const model::StreamKey& key, uint64_t durable_seq, uint64_t durable_item)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Records that the stream has ended.
  void Remove(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);

  // The same, after Finish() with these losses. Keeps the ring for TakeReleased().
  void Finish(const model::StreamKey& key, const model::Losses& losses) ABSL_LOCKS_EXCLUDED(mutex_);
  // Finished streams whose rings do not change any more, each once. If there are more than
  // kMaxFinished, the oldest ones too.
  std::vector<FinishedStream> TakeReleased() ABSL_LOCKS_EXCLUDED(mutex_);
  // TakeReleased() returns the stream once more.
  void PutBack(FinishedStream stream) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::optional<LiveStream> Find(const model::StreamKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The first stream with this incarnation. Incarnations are random, so there is at most one.
  absl::optional<LiveStream> FindIncarnation(uint64_t incarnation) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Streams on which no rows can arrive: those without a connection, and those whose process has
  // ended and whose ring is complete. In the second case something else, such as a forked child,
  // may hold the connection open.
  std::vector<LiveStream> Detached() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The processes whose end RankWatch must notice, because no connection shows it: those of
  // detached and of finished streams.
  std::vector<std::shared_ptr<const Peer>> PeersToWatch() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether this process already has a stream. `process` is Launch::process; false if it is empty.
  bool HasProcess(const std::string& process) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether one of this process's streams is connected, or its ring is read.
  bool HasAttached(const std::string& process) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The stream is about to be attached in the store. Until EndAttaching() it counts among the other
  // streams of its rank. If the attach succeeds, call AddKnown() or Attach() before EndAttaching().
  void BeginAttaching(LiveStream live) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndAttaching(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if another stream of the rank must end first. Either that stream's process has ended, or
  // may have ended before this daemon started. Or this process made that stream by an earlier
  // Init(), and has finished it. Until that stream has ended, it is unknown whether the rank
  // continues or runs twice. `process` is Launch::process of the new stream.
  bool MustWaitForPredecessor(const model::StreamKey& key, const std::string& process) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // True if the process `peer` ran another program before, by exec(), and a stream of that program
  // has not ended yet. Its rows must be stored first, so it is marked as replaced. `began_us` is
  // v1::Identity::began_us of the current program; `peer` may be null.
  bool ReplacesProgram(const model::StreamKey& key, const Peer* peer, uint64_t began_us)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Records that the stream's process runs another program now.
  void SetReplaced(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);

  // Offers the ring of a known stream that did not come by its path: passed as a descriptor, or found
  // in a directory.
  void OfferRing(uint64_t incarnation, std::shared_ptr<const RingFile> ring)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The number of attached streams, of their ranks, and of the jobs of these.
  struct Attached {
    size_t streams = 0;
    size_t ranks = 0;
    size_t jobs = 0;
  };
  Attached CountAttached() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool full() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The processes of the streams, by the store's id of the stream; 0: in a pid namespace that this
  // daemon does not see. Without streams whose process is not known.
  std::map<int64_t, pid_t> Pids() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The other streams of this rank, of any start under its job id.
  std::vector<LiveStream> OthersOf(const model::StreamKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void()> on_change_;
  mutable absl::Mutex mutex_;
  std::map<model::StreamKey, LiveStream> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<FinishedStream> finished_ ABSL_GUARDED_BY(mutex_);  // oldest first
  std::map<model::StreamKey, LiveStream> attaching_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_attachment_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_STREAM_REGISTRY_H_
