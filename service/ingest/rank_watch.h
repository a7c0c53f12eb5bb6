// Notices when a rank has died, and takes over what it left.

#ifndef SERVICE_INGEST_RANK_WATCH_H_
#define SERVICE_INGEST_RANK_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
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
// is held; a process that runs but has called Finish() and let its ring go counts as gone. Of a
// rank that is gone the rest of the ring is stored, its stream ended, and the ring's file removed.
//
// The spool directories are looked through at the start and every few seconds, for rings whose rank
// never reached us: those of a time without a daemon, and of forked children that could not
// connect.
class RankWatch {
 public:
  struct Options {
    std::vector<std::string> spool_dirs;
    absl::Duration scan_interval = absl::Seconds(3);
    // A ring without a lock is looked at again after this: its rank may be about to take the lock.
    absl::Duration confirm = absl::Milliseconds(250);
    // Start() waits so long until what the dead left is taken, so that it comes before what their
    // successors send, and the successors' attach is seen to come after their end.
    absl::Duration head_start = absl::Seconds(5);
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
  // Ends after the drain under way. Twice is harmless.
  void Stop();

 private:
  using FileId = std::pair<uint64_t, uint64_t>;  // device, inode

  void Run();
  void WatchPeers();
  void Sweep(absl::Time now);
  bool Gone(const LiveStream& live, absl::Time now) const;

  void Scan();
  // Adds a ring without a lock, which had none at the last look either, to `left`.
  void Examine(const std::string& path, const std::set<FileId>& suspected,
               std::vector<Orphans::Left>* left);
  void LeaveAlone(const RingFile& file, const absl::Status& why);

  const IngestContext& context_;
  const std::unique_ptr<storage::StoreReader> reader_;
  Orphans orphans_;
  const WakeEvent* const wake_;
  const Options options_;
  absl::Time started_;
  UniqueFd epoll_;
  UniqueFd stop_;              // an eventfd
  std::set<FileId> suspects_;  // rings without a lock at the last look
  std::set<FileId> ignored_;   // rings that cannot be read; said once
  absl::Mutex mutex_;
  SteadyWait changed_;  // goes with mutex_
  bool caught_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RANK_WATCH_H_
