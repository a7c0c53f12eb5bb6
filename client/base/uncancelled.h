// Protects calls from pthread_cancel().

#ifndef CLIENT_BASE_UNCANCELLED_H_
#define CLIENT_BASE_UNCANCELLED_H_

#include <pthread.h>

namespace ranklog::internal {

// While an object of this class exists, its thread is not cancelled. A cancellation takes effect at
// the next cancellation point after that. The C library unwinds a cancelled thread by an exception.
// That exception ends the process at a noexcept, or at a `catch (...)` that does not rethrow, and
// our calls have both.
class Uncancelled {
 public:
  Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_UNCANCELLED_H_
