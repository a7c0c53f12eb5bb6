// Calls that pthread_cancel() does not interrupt.

#ifndef CLIENT_UNCANCELLED_H_
#define CLIENT_UNCANCELLED_H_

#include <pthread.h>

namespace ranklog::internal {

// While one lives, its thread is not cancelled; it is at its next cancellation point after that.
// The C library unwinds a cancelled thread by an exception that ends the process where it meets
// noexcept or a `catch (...)` that keeps it, as our calls have.
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

#endif  // CLIENT_UNCANCELLED_H_
