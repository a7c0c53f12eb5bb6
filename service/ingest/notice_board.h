// Current notices for the users of runs. The parts of the daemon that detect a condition post them;
// the streams of the runs receive them.

#ifndef SERVICE_INGEST_NOTICE_BOARD_H_
#define SERVICE_INGEST_NOTICE_BOARD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::ingest {

// Thread-safe.
class NoticeBoard {
 public:
  // Called with the board's lock held, in the order of the posts. Must not block and must not call
  // the board.
  using Listener = std::function<void(const v1::Notice&)>;

  static constexpr int64_t kAllRuns = 0;  // not the id of a run

  // Replaces the run's notice with the same key, and passes it to the run's listeners. A notice
  // that is over is passed on if it was posted before, and is not kept. Does nothing if the current
  // notice has the same text.
  void Post(int64_t run, const v1::Notice& notice) ABSL_LOCKS_EXCLUDED(mutex_);
  // Passes the run's id to the run's listeners, once each, after the first rank of its node is
  // known. Listeners that follow the run later already know the id. Does nothing if `run_id` is
  // empty, which means that the id is not known yet.
  void SendRunId(int64_t run, const std::string& run_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Call it when the run has ended and all of it is delivered.
  void Forget(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);

  // Passes the current notices for all runs to `listener` at once, and later ones as they are
  // posted.
  uint64_t AddListener(Listener listener) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on `listener` also receives the notices of `run`. Returns the current notices of the
  // run, and those for all runs.
  std::vector<v1::Notice> FollowRun(uint64_t listener, int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the listener; it is not called any more. Idempotent.
  void RemoveListener(uint64_t listener) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Listener listener;
    int64_t run = kAllRuns;
    std::string run_id;  // that the listener received
  };

  absl::Mutex mutex_;
  std::map<int64_t, std::map<std::string, v1::Notice>> current_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Entry> listeners_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_listener_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_NOTICE_BOARD_H_
