// A wrapper of std::mutex with Clang's thread-safety annotations.
//
// Not absl::Mutex: a fork must be able to replace the state of a lock in the child. Also, Debian's
// Abseil is not instrumented for TSan, which would report everything that the lock guards.

#ifndef CLIENT_BASE_MUTEX_H_
#define CLIENT_BASE_MUTEX_H_

#include <pthread.h>
#include <signal.h>

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace ranklog::internal {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Blocks all signals of its thread during its lifetime.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Locks with signals blocked. A signal handler that calls exit() needs our locks, and never
// returns. If it interrupted a thread that holds one, exit() would deadlock.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  const SignalsBlocked signals_blocked_;
  Mutex* const mutex_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_MUTEX_H_
