// Measurements that the daemon takes of itself each second.

#ifndef SERVICE_DAEMON_METRICS_MONITOR_H_
#define SERVICE_DAEMON_METRICS_MONITOR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/daemon/metrics/rate.h"

namespace ranklog::daemon {

// The rate of rows, the growth of the store, and the state of its disk.
class Monitor {
 public:
  struct View {
    double rows_per_second = 0;                // over the last ten seconds
    absl::optional<double> growth_per_second;  // bytes of the store's files; over ten minutes
    int64_t store_bytes = 0;                   // size of the store's files
    int64_t content_bytes = 0;                 // of large items that are not in the store yet
    int64_t disk_bytes = 0;                    // size of the store's file system
    int64_t disk_free_bytes = 0;               // free space there for this user
    bool disk_writable = true;                 // has free space and is not mounted read-only
  };

  explicit Monitor(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  // Call it once a second. `rows` is the number of rows since the start. Costs three system calls.
  void Sample(absl::Time steady_now, uint64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);
  // From any thread.
  View view() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string state_dir_;
  // Used only by the thread that calls Sample().
  Rate rows_{absl::Seconds(10), absl::Seconds(1)};
  Rate bytes_{absl::Minutes(10), absl::Minutes(1)};
  absl::Time next_bytes_ = absl::InfinitePast();
  int64_t content_bytes_ = 0;

  mutable absl::Mutex mutex_;
  View view_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_METRICS_MONITOR_H_
