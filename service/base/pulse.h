// The watchdog state of a thread: whether its loop runs, waits, or hangs.

#ifndef SERVICE_BASE_PULSE_H_
#define SERVICE_BASE_PULSE_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "service/base/clock.h"

namespace ranklog {

// One for each loop. It is at rest while the loop waits for work, for another loop, or for room on
// the disk. The end of a wait is a beat. A loop that neither rests nor beats for a long time hangs.
//
// Any thread may call Silence(). Everything else belongs to the loop's own thread. Code that a loop
// calls does not know the loop's pulse. So Rest and Beat() act on the pulse of the calling thread.
// On a thread without one, they do nothing.
class Pulse {
 public:
  // Registers the pulse for the current thread. Lives as long as the loop runs.
  class Loop {
   public:
    explicit Loop(Pulse* pulse) {
      current_ = pulse;
      Beat();
    }
    ~Loop() { std::exchange(current_, nullptr)->since_ns_ = kAtRest; }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;
  };

  // The thread waits until the end of the scope.
  class Rest {
   public:
    Rest() {
      if (current_ != nullptr) current_->since_ns_ = kAtRest;
    }
    ~Rest() { Beat(); }
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;
  };

  // Reports progress within a long operation.
  static void Beat() {
    if (current_ != nullptr) current_->since_ns_ = absl::ToUnixNanos(SteadyNow());
  }

  // The time since the last beat; zero at rest.
  absl::Duration Silence(absl::Time steady_now) const {
    const int64_t since_ns = since_ns_;
    if (since_ns == kAtRest) return absl::ZeroDuration();
    return steady_now - absl::FromUnixNanos(since_ns);
  }

 private:
  static constexpr int64_t kAtRest = -1;
  static inline thread_local Pulse* current_ = nullptr;
  std::atomic<int64_t> since_ns_{kAtRest};
};

}  // namespace ranklog

#endif  // SERVICE_BASE_PULSE_H_
