// Waits with a time limit that is measured by the steady clock.

#ifndef SERVICE_BASE_STEADY_WAIT_H_
#define SERVICE_BASE_STEADY_WAIT_H_

#include <algorithm>
#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"

namespace ranklog {

// Instead of absl::Mutex::AwaitWithTimeout(), which in Debian's Abseil waits for a moment of the
// wall clock: where that is set back by a day, the wait lasts a day longer.
//
// Goes with one mutex. Who changes what is waited for calls Wake(), with the mutex or without.
class SteadyWait {
 public:
  // Until `holds()`, which is called with the mutex, but for at most `timeout`. What it says last.
  template <typename Holds>
  bool Await(absl::Mutex* mutex, absl::Duration timeout, const Holds& holds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const absl::Time deadline = SteadyNow() + timeout;
    Lockable lockable{mutex};
    while (!holds()) {
      const absl::Duration left = deadline - SteadyNow();
      if (left <= absl::ZeroDuration()) return false;
      // A longer one has more nanoseconds than the standard library can add to now.
      condition_.wait_for(lockable, absl::ToChronoNanoseconds(std::min(left, absl::Hours(1))));
    }
    return true;
  }
  void Wake() { condition_.notify_all(); }

 private:
  struct Lockable {  // as the standard library names it
    absl::Mutex* const mutex;
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
  };
  std::condition_variable_any condition_;
};

}  // namespace ranklog

#endif  // SERVICE_BASE_STEADY_WAIT_H_
