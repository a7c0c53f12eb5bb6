// Notices when a rank has died, and takes over what it left.

#ifndef SERVICE_INGEST_RANK_WATCH_H_
#define SERVICE_INGEST_RANK_WATCH_H_

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
#include "service/ingest/attach.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/orphans.h"
#include "service/ingest/ring_file.h"
#include "service/ingest/stream_registry.h"
#include "service/ingest/unique_fd.h"
#include "service/storage/store.h"

namespace ranklog::ingest {

// Wakes a thread that waits for descriptors.
class WakeEvent {
 public:
  WakeEvent();
  void Notify() const;
  void Clear() const;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// One thread. A rank lives while its stream is connected, its process runs, or the lock on its ring
// is held. A process that runs counts as gone too, once it has let go of the ring and called
// Finish(); or once it runs another program, by exec(): it lets go of the ring without Finish(),
// and then for some seconds nobody is connected, or its next program wants to attach. Of a rank
// that is gone the rest of the ring is stored, its stream ended, and the ring's file removed.
//
// The spool directories are looked through at the start and every few seconds, for rings whose rank
// never reached us: those of a time without a daemon, and of forked children that could not
// connect. A user may have several daemons, which look into the same directories: each takes the
// rings whose ranks call it, and those that name nobody.
class RankWatch {
 public:
  struct Options {
    std::vector<std::string> spool_dirs;
    // Where we listen. Rings there that name another daemon's address are left to that. Empty: all
    // are ours.
    std::string socket_path;
    absl::Duration scan_interval = absl::Seconds(3);
    // A ring without a lock is looked at again after this: its rank may be about to take the lock.
    absl::Duration confirm = absl::Milliseconds(250);
    // Start() and WhenCaughtUp() wait so long until what the dead left is taken, so that it comes
    // before what their successors send, and the successors' attach is seen to come after their end.
    absl::Duration head_start = absl::Seconds(5);
    // A process that let go of its ring has so long to connect again. Whoever closes all of its
    // descriptors loses lock and connection too, and goes on.
    absl::Duration let_go = absl::Seconds(2);
    // After our start, a live stream whose ring is nowhere may still be about to attach: this long.
    absl::Duration attach_grace = absl::Seconds(15);
  };

  // `wake` is notified by the registry; `context` and `reader` outlive this.
  RankWatch(const IngestContext* context, std::unique_ptr<storage::StoreReader> reader,
            const WakeEvent* wake, Options options);
  ~RankWatch();  // Stop()

  // Takes up the streams that the store says are live, then starts the thread, and waits until that
  // has ended those whose rank is gone, and taken the rings that were left; but no longer than the
  // head start.
  absl::Status Start();
  // Calls `then` on the watch's thread, once it has taken over from all ranks that are dead by now,
  // or after the head start. From any thread. Not called any more after Stop().
  void WhenCaughtUp(absl::AnyInvocable<void()> then) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends after the drain under way. Twice is harmless.
  void Stop();

  // Of its thread: see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

 private:
  using FileId = std::pair<uint64_t, uint64_t>;  // device, inode
  struct Waiter {
    absl::Time since;
    absl::Time looked;  // the first look after that; infinite future: none yet
    absl::AnyInvocable<void()> then;
  };

  void Run();
  bool AnyAwaitsLook() ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteLook(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls those whose look came before this one, and those who have waited too long.
  void CallWaiting(absl::Time look) ABSL_LOCKS_EXCLUDED(mutex_);
  void WatchPeers();
  void Sweep(absl::Time now);
  bool Gone(const LiveStream& live, absl::Time now) const;
  // Its process runs, and has let go of the ring.
  static bool HasLetGo(const LiveStream& live);

  // The rings to be adopted. Rings of live streams are offered to these.
  std::vector<Orphans::Left> Scan(absl::Time now);
  // Adds a ring without a lock, which had none at the last look either, to `left`.
  void Examine(const std::string& path, absl::Time now,
               const std::map<FileId, absl::Time>& suspected, std::vector<Orphans::Left>* left);
  void LeaveAlone(const RingFile& file, const absl::Status& why);

  const IngestContext& context_;
  const std::unique_ptr<storage::StoreReader> reader_;
  Orphans orphans_;
  const WakeEvent* const wake_;
  const Options options_;
  absl::Time started_;
  UniqueFd epoll_;
  UniqueFd stop_;  // an eventfd
  // Streams whose process had let go of the ring at the last sweep, and since when.
  std::map<model::StreamKey, absl::Time> let_go_;
  std::map<FileId, absl::Time> suspects_;  // rings without a lock, since which look
  // Rings of processes that had let go of them and go on: looked at again at their end.
  std::map<FileId, std::shared_ptr<const Peer>> kept_;
  std::set<FileId> ignored_;  // rings that cannot be read; said once
  absl::Mutex mutex_;
  SteadyWait changed_;  // goes with mutex_
  bool caught_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Waiter> waiting_ ABSL_GUARDED_BY(mutex_);  // the longest first
  Pulse pulse_;
  std::thread thread_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RANK_WATCH_H_
