// Reads the rings of live forked children, which send nothing themselves.

#ifndef SERVICE_INGEST_ORPHANS_LIVE_RINGS_H_
#define SERVICE_INGEST_ORPHANS_LIVE_RINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/pulse.h"
#include "service/base/unique_fd.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/orphans/orphans.h"
#include "service/ingest/orphans/wake_event.h"
#include "service/ingest/ring/peer.h"
#include "service/ingest/ring/ring_file.h"
#include "service/ingest/ring/spool_reader.h"
#include "service/model/run.h"

namespace ranklog::ingest {

// A ring is read while its process holds the lock on it. What the store has committed is written
// into the ring's header, so that the process frees it. When the lock is released, the stream counts
// as disconnected, and RankWatch takes the rest.
class LiveRings {
 public:
  // A child's rows are in the store this long after Log(), and the time of a commit.
  static constexpr absl::Duration kInterval = absl::Milliseconds(100);

  // Whether the process of a ring lives: it holds the lock.
  using Lives = std::function<bool(const RingFile& file, uint64_t incarnation)>;

  // `context` must outlive this object. `on_left` is called if TakeLeft() has new rings.
  explicit LiveRings(
      const IngestContext* context, std::function<void()> on_left = [] {},
      Lives lives = [](const RingFile& file, uint64_t) { return file.locked(); })
      : context_(*context), on_left_(std::move(on_left)), lives_(std::move(lives)) {}
  ~LiveRings();  // calls Stop()

  // Starts to read a ring, if its Hello asks for that. From any thread; does not block. The ring was
  // passed on `connection` by `peer`, or was found in a directory; then both are empty. If the ring is
  // read already, only the connection is new. A byte on the connection asks to read at once.
  // False: the ring is not to be read live.
  bool Offer(std::shared_ptr<const RingFile> file, std::shared_ptr<const Peer> peer,
             UniqueFd connection) ABSL_LOCKS_EXCLUDED(mutex_);

  // The rings whose process ended before its stream was attached, each once.
  std::vector<Orphans::OrphanRing> TakeLeft() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Start();  // the thread
  void Stop();           // idempotent
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

  // Reads each ring once. Called by the thread, or by a test without one.
  void Read() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct LiveRing;
  using Pointer = std::shared_ptr<LiveRing>;

  void Run();
  void TakeOffers() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false if the ring is not to be read any more.
  bool Prepare(const Pointer& ring) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false if the stream cannot be attached now.
  bool Attach(LiveRing* ring);
  void Submit(const Pointer& ring, bool urgent) ABSL_LOCKS_EXCLUDED(mutex_);
  void Stored(const Pointer& ring, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const IngestContext& context_;
  const std::function<void()> on_left_;
  const Lives lives_;
  UniqueFd epoll_;
  const WakeEvent wake_;
  std::map<uint64_t, Pointer> rings_;  // by incarnation; used only by Read()
  absl::Mutex mutex_;
  std::vector<Pointer> offered_ ABSL_GUARDED_BY(mutex_);
  std::vector<Orphans::OrphanRing> left_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Pulse pulse_;
  std::thread thread_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_LIVE_RINGS_H_
