// A mutex and a condition variable over the standard ones, with Clang's thread-safety annotations.
//
// Not absl::Mutex: a fork must be able to replace the state of a lock in the child, and Debian's
// Abseil is not instrumented for TSan, which would then report all that the lock guards.

#ifndef CLIENT_MUTEX_H_
#define CLIENT_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace ranklog::internal {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

class Condition {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // May wake early; the caller checks what it waits for.
  void WaitUntil(Mutex* mutex, Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait_until(lock, deadline);
    lock.release();
  }
  void WakeAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_MUTEX_H_
