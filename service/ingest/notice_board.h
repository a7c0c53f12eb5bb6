// What the users of runs should know now: from the parts of the daemon that find out, to the
// streams of the runs.

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
  // Is called with the board's lock held, in the order of the posts: it must not block, and must
  // not call the board.
  using Listener = std::function<void(const v1::Notice&)>;

  static constexpr int64_t kAllRuns = 0;  // no run's id

  // Replaces the run's notice of the same key, and tells the run's listeners. One that is over is
  // told, and not kept. Costs nothing if it says the same as the current one.
  void Post(int64_t run, const v1::Notice& notice) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells the run's listeners its id, now that the first rank of its node is known, each of them
  // once. Whoever follows the run later knows it. Nothing is told if it is empty: it is not known
  // yet.
  void TellRunId(int64_t run, const std::string& run_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The run has ended, and all of it is delivered.
  void Forget(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);

  // Tells `listener` of all runs' notices from now on, and of all runs' current ones at once.
  uint64_t Listen(Listener listener) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells it of that run's, too. Returns the current notices, all runs' included.
  std::vector<v1::Notice> Follow(uint64_t listener, int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);
  // It is not called any more. Twice is harmless.
  void Leave(uint64_t listener) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Listener listener;
    int64_t run = kAllRuns;
    std::string run_id;  // that it was told
  };

  absl::Mutex mutex_;
  std::map<int64_t, std::map<std::string, v1::Notice>> current_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Entry> listeners_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_listener_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_NOTICE_BOARD_H_
