// Waits with a timeout by the steady clock.

#ifndef SERVICE_BASE_STEADY_WAIT_H_
#define SERVICE_BASE_STEADY_WAIT_H_

#include <algorithm>
#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"

namespace ranklog {

// Replaces absl::Mutex::AwaitWithTimeout(), which in Debian's Abseil uses the wall clock. If that
// clock is set back by a day, the wait lasts a day longer.
//
// Belongs to one mutex. A thread that changes the condition calls Wake(), with or without the
// mutex.
class SteadyWait {
 public:
  // Waits until `holds()` returns true, for at most `timeout`. Calls it with the mutex held.
  // Returns its last result.
  template <typename Holds>
  bool Await(absl::Mutex* mutex, absl::Duration timeout, const Holds& holds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const absl::Time deadline = SteadyNow() + timeout;
    Lockable lockable{mutex};
    while (!holds()) {
      const absl::Duration left = deadline - SteadyNow();
      if (left <= absl::ZeroDuration()) return false;
      // The standard library would overflow if it added a longer wait to the current time.
      condition_.wait_for(lockable, absl::ToChronoNanoseconds(std::min(left, absl::Hours(1))));
    }
    return true;
  }
  void Wake() { condition_.notify_all(); }

 private:
  struct Lockable {  // with the names of the standard library
    absl::Mutex* const mutex;
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
  };
  std::condition_variable_any condition_;
};

}  // namespace ranklog

#endif  // SERVICE_BASE_STEADY_WAIT_H_
