// What the daemon sees of itself from second to second.

#ifndef SERVICE_DAEMON_MONITOR_H_
#define SERVICE_DAEMON_MONITOR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/daemon/rate.h"

namespace ranklog::daemon {

// How fast rows come, how fast the store grows, and the disk below it.
class Monitor {
 public:
  struct View {
    double rows_per_second = 0;                // over the last ten seconds
    absl::optional<double> growth_per_second;  // of the store's files, bytes; over ten minutes
    int64_t store_bytes = 0;                   // of the store's files
    int64_t disk_bytes = 0;                    // of the store's file system
    int64_t disk_free_bytes = 0;               // of it, for this user
    bool disk_writable = true;                 // it has room, and is not mounted read-only
  };

  explicit Monitor(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  // To be called once a second. `rows`: that have come since the start. Costs three system calls.
  void Look(absl::Time steady_now, uint64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);
  // From any thread.
  View view() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string state_dir_;
  // Of the thread that looks.
  Rate rows_{absl::Seconds(10), absl::Seconds(1)};
  Rate bytes_{absl::Minutes(10), absl::Minutes(1)};
  absl::Time next_bytes_ = absl::InfinitePast();

  mutable absl::Mutex mutex_;
  View view_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_MONITOR_H_
