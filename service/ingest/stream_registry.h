// The streams that have not ended: which of them a rank is connected to, and where each one's ring
// is.

#ifndef SERVICE_INGEST_STREAM_REGISTRY_H_
#define SERVICE_INGEST_STREAM_REGISTRY_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/ingest/peer.h"
#include "service/ingest/ring_file.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::ingest {

struct LiveStream {
  model::StreamKey key;
  int64_t id = 0;                        // the store's
  int64_t run = 0;                       // the store's
  int64_t pid = 0;                       // as the rank said
  std::string process{};                 // Launch::process; empty: unknown
  uint64_t durable_seq = 0;              // rows up to this one are committed
  std::shared_ptr<const RingFile> ring;  // shared with whoever drains it; null: not seen yet
  std::shared_ptr<const Peer>
      peer;                 // shared with other streams of the process; null: not since our start
  uint64_t attachment = 0;  // 0: no connection
  bool replaced = false;    // its process runs another program now
  bool was_cut = false;     // a connection ended within a message, and no row came since
  absl::Time destroyed = absl::InfiniteFuture();  // since when its run is, without Finish()
};

// Thread-safe. Told by the streams' RPCs; asked by the watch over the ranks.
class StreamRegistry {
 public:
  static constexpr size_t kMaxStreams = 4096;  // each may hold three descriptors
  static constexpr size_t kMaxEnded =
      4096;  // so that a Finish() whose answer was lost may be repeated
  static constexpr size_t kMaxDescriptors = 64;  // passed before their stream attached

  // `wake` is called, without a lock, when a stream lost its connection or a peer is new to watch.
  explicit StreamRegistry(std::function<void()> wake) : wake_(std::move(wake)) {}

  // A stream that the store says is live, of which nothing else is known yet but, maybe, the ring
  // that its process has left.
  void AddKnown(const model::Stream& stream, std::shared_ptr<const RingFile> ring = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A rank attached. Returns the number of the attachment; older ones of this stream count no more.
  uint64_t Attach(const model::Stream& stream, std::shared_ptr<const RingFile> ring,
                  std::shared_ptr<const Peer> peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection of that attachment is gone.
  void Detach(const model::StreamKey& key, uint64_t attachment) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetDurable(const model::StreamKey& key, uint64_t durable_seq) ABSL_LOCKS_EXCLUDED(mutex_);
  // The stream has ended, as HasEnded() knows of the last kMaxEnded.
  void Remove(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);

  bool HasEnded(const model::StreamKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);

  absl::optional<LiveStream> Find(const model::StreamKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of all streams with this incarnation the first; incarnations are random, so there is one.
  absl::optional<LiveStream> FindIncarnation(uint64_t incarnation) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Those that nobody sends rows of: without a connection, or with one that outlives its process,
  // as where a forked child holds it, though the ring has all that it could bring.
  std::vector<LiveStream> Detached() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The other streams of this rank, of any start under its job id.
  std::vector<LiveStream> OthersOf(const model::StreamKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // This process has a stream already. `process` is Launch::process; an empty one has none.
  bool HasProcess(const std::string& process) const ABSL_LOCKS_EXCLUDED(mutex_);
  // This stream is about to be attached in the store: it counts among the others of its rank until
  // EndAttaching(), before which it is here for good if it was attached.
  void BeginAttaching(LiveStream live) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndAttaching(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // Another process of the rank has gone, or may have since we started, or another Init() of this
  // process has finished; and its stream was not ended yet. So nobody can say whether the rank goes
  // on or is there twice. `process` is Launch::process of the one that asks.
  bool AwaitsEndOfFormer(const model::StreamKey& key, const std::string& process) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The stream's process runs another program now.
  void SetReplaced(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);

  // The stream's connection ended within a message. True if the last one did, too, and nothing of
  // the stream became durable in between.
  bool WasCutAgain(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);

  // The stream's run was destroyed, by a steady clock now or before; returns when.
  absl::Time SetDestroyed(const model::StreamKey& key) ABSL_LOCKS_EXCLUDED(mutex_);

  // A ring that came by another way than its path: passed as a descriptor, or found in a directory.
  // Kept for a stream that attaches a moment later, at most kMaxDescriptors of them.
  void OfferRing(uint64_t incarnation, std::shared_ptr<const RingFile> ring)
      ABSL_LOCKS_EXCLUDED(mutex_);

  size_t attached() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The ranks whose streams are attached, and their jobs.
  struct Attached {
    size_t ranks = 0;
    size_t jobs = 0;
  };
  Attached CountAttached() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool full() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::function<void()> wake_;
  mutable absl::Mutex mutex_;
  std::map<model::StreamKey, LiveStream> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<const RingFile>> offered_ ABSL_GUARDED_BY(mutex_);
  std::set<model::StreamKey> ended_ ABSL_GUARDED_BY(mutex_);
  std::deque<model::StreamKey> ended_order_ ABSL_GUARDED_BY(mutex_);  // of ended_, oldest first
  std::map<model::StreamKey, LiveStream> attaching_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_attachment_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_STREAM_REGISTRY_H_
