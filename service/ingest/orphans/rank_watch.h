// Detects dead ranks, stores what they left, and ends their streams.

#ifndef SERVICE_INGEST_ORPHANS_RANK_WATCH_H_
#define SERVICE_INGEST_ORPHANS_RANK_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/pulse.h"
#include "service/base/steady_wait.h"
#include "service/base/unique_fd.h"
#include "service/ingest/attach.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/orphans/live_rings.h"
#include "service/ingest/orphans/orphans.h"
#include "service/ingest/orphans/wake_event.h"
#include "service/ingest/ring/ring_file.h"
#include "service/ingest/stream_registry.h"
#include "service/storage/store_reader.h"

namespace ranklog::ingest {

// Runs one thread. A rank is alive while its stream is connected, its process runs, or the lock on
// its ring is held. The rest of a dead rank's ring is stored, its stream is ended, and the ring's
// file is removed.
//
// A running process also counts as dead in two cases:
//   - It released the lock on the ring and called Finish().
//   - It runs another program, by exec(). It released the lock without Finish(). Then either no
//     stream is connected for some seconds, or its next program wants to attach.
//
// At the start and every few seconds, it scans the spool directories for rings whose rank never
// attached. Such rings are from a time without a daemon. LiveRings gets those of live forked children.
// A user may have several daemons that scan the same directories. Each takes the rings
// that name its address, and rings that name none.
//
// A live rank that forked, and its live children, are attached by their rings, because a step of
// their run must not be closed before all of them have connected.
class RankWatch {
 public:
  struct Options {
    std::vector<std::string> spool_dirs;
    // The address on which this daemon listens. Rings that name another daemon's address are left
    // to that daemon. Empty: takes all rings.
    std::string socket_path;
    absl::Duration scan_interval = absl::Seconds(3);
    // Start() and WhenCaughtUp() wait at most this long until the rings of dead ranks are stored.
    // So their rows come before the rows of their successors, and a successor's attach comes after
    // the end of its predecessor.
    absl::Duration head_start = absl::Seconds(5);
    // A process that released its ring has this long to connect again. A process that closes all of
    // its descriptors loses lock and connection too, but continues.
    absl::Duration release_grace = absl::Seconds(2);
    // After the daemon's start, a live stream whose ring is not found has this long to attach. The
    // same for a forked child that was attached by its ring: the run waits so long for its rows.
    absl::Duration attach_grace = absl::Seconds(15);
    LiveRings* live_rings = nullptr;  // gets the rings of live forked children; outlives the watch
  };

  // The registry notifies `wake`. `context` must outlive this object, and so must `wake`.
  RankWatch(const IngestContext* context, std::unique_ptr<storage::StoreReader> reader,
            const WakeEvent* wake, Options options);
  ~RankWatch();  // calls Stop()

  // Loads the streams that the store lists as live, and starts the thread. Waits until the thread
  // has ended the streams of dead ranks and stored the rings that were left, but at most
  // Options::head_start.
  absl::Status Start();
  // Calls `then` on the watch's thread, once everything from ranks that are dead now is stored, or
  // after Options::head_start. May be called from any thread. `then` is not called after Stop().
  void WhenCaughtUp(absl::AnyInvocable<void()> then) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the thread after the current drain. Idempotent.
  void Stop();

  // Time since the last beat of the watch's thread; see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

 private:
  using FileId = std::pair<uint64_t, uint64_t>;  // device, inode
  struct Waiter {
    absl::Time since;
    bool scanned;  // since then
    absl::AnyInvocable<void()> then;
  };

  void Run();
  // Takes the rings that LiveRings leaves. Returns whether there are new ones.
  bool TakePassed();
  bool AnyAwaitsScan() ABSL_LOCKS_EXCLUDED(mutex_);
  void RecordScan() ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls the waiters that have waited too long; `caught_up`: and those whose scan is done.
  void CallWaiting(bool caught_up) ABSL_LOCKS_EXCLUDED(mutex_);
  void WatchPeers();
  void Sweep(absl::Time now);
  bool IsDead(const LiveStream& live, absl::Time now) const;
  // The process runs, but has released the ring.
  static bool HasReleasedRing(const LiveStream& live);

  struct Rings {
    std::vector<Orphans::OrphanRing> left;    // to adopt
    std::vector<Orphans::LivingRing> living;  // of ranks that are about to attach
    bool more = false;  // `living` has rings of dead ranks too, which the next scan takes
  };
  // Returns the rings without a stream. Offers rings of live streams to these streams.
  Rings Scan();
  // Adds a locked ring to `living`, and an unlocked one to `left`. A rank takes the lock before it
  // writes its Hello, so an unlocked ring is that of a dead rank.
  void Examine(const std::string& path, Rings* rings);
  static void AddLeft(Rings* rings, Orphans::OrphanRing ring);
  // Attaches by their rings the ranks that forked, and their children. Runs no longer wait for
  // those that did not connect in time. Returns whether some wait until `rings.left` is adopted.
  bool AttachForked(const Rings& rings, absl::Time now);
  void IgnoreRing(const RingFile& file, const absl::Status& why);

  const IngestContext& context_;
  const std::unique_ptr<storage::StoreReader> reader_;
  Orphans orphans_;
  const WakeEvent* const wake_;
  const Options options_;
  absl::Time started_;
  UniqueFd epoll_;
  const WakeEvent stop_;
  // Streams whose process had released the ring at the last sweep, and since when.
  std::map<model::StreamKey, absl::Time> released_;
  // Rings of processes that released them and still run. Read again when the process ends.
  std::map<FileId, std::shared_ptr<const Peer>> kept_;
  std::vector<Orphans::OrphanRing> passed_;  // left by LiveRings; no scan may find them again
  std::set<FileId> ignored_;                 // unreadable rings; logged once each
  std::map<model::StreamKey, absl::Time> expected_;  // attached by their rings, and since when
  absl::Mutex mutex_;
  SteadyWait changed_;  // used with mutex_
  bool caught_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Waiter> waiting_ ABSL_GUARDED_BY(mutex_);  // the one that has waited longest first
  Pulse pulse_;
  std::thread thread_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_RANK_WATCH_H_
