// Annotates the synchronization by Abseil's locks and statuses for ThreadSanitizer. Linked only
// into the programs of a thread build.
//
// Debian's Abseil is not instrumented. TSan does not see that a Lock() follows the previous
// Unlock(), so it would report all data that an absl::Mutex guards. The functions below replace
// those of libabsl_synchronization.so in the whole process, gRPC included. Each calls the original
// and reports the event to TSan. These functions suffice, because all others use them: Await*()
// calls AwaitCommon(), LockWhen*() LockSlowWithDeadline(), and CondVar::Wait*() WaitCommon().

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace {

using absl::synchronization_internal::KernelTimeout;

// The replaced function, whose symbol is `name`. If a symbol is missing, Abseil has another
// version, and this file must be checked against it.
template <typename Function>
Function Original(const char* name) {
  void* const function = dlsym(RTLD_NEXT, name);
  if (function == nullptr) {
    fprintf(stderr, "tsan_abseil: this process has no %s\n", name);
    abort();
  }
  return reinterpret_cast<Function>(function);
}

// The mutex that this thread is locking or unlocking. Meanwhile Abseil evaluates the conditions of
// all waiting threads, although TSan sees the mutex as not yet locked, or as unlocked already.
thread_local void* at_hand = nullptr;

class AtHand {
 public:
  explicit AtHand(void* mutex) : previous_(at_hand) { at_hand = mutex; }
  ~AtHand() { at_hand = previous_; }

 private:
  void* const previous_;
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto original = Original<void (*)(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  original(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static const auto original = Original<bool (*)(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = original(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static const auto original = Original<void (*)(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  const AtHand mutex(this);
  __tsan_release(this);
  original(this);
}

void Mutex::ReaderLock() {
  static const auto original = Original<void (*)(Mutex*)>("_ZN4absl7debian35Mutex10ReaderLockEv");
  original(this);
  __tsan_acquire(this);
}

bool Mutex::ReaderTryLock() {
  static const auto original =
      Original<bool (*)(Mutex*)>("_ZN4absl7debian35Mutex13ReaderTryLockEv");
  const bool locked = original(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderUnlock() {
  static const auto original = Original<void (*)(Mutex*)>("_ZN4absl7debian35Mutex12ReaderUnlockEv");
  const AtHand mutex(this);
  __tsan_release(this);
  original(this);
}

// The mutex is held before and after.
bool Mutex::AwaitCommon(const Condition& condition, KernelTimeout timeout) {
  static const auto original = Original<bool (*)(Mutex*, const Condition&, KernelTimeout)>(
      "_ZN4absl7debian35Mutex11AwaitCommonERKNS0_9ConditionENS0_24synchronization_"
      "internal13KernelTimeoutE");
  const AtHand mutex(this);
  __tsan_release(this);
  const bool holds = original(this, condition, timeout);
  __tsan_acquire(this);
  return holds;
}

// The mutex is held afterwards, whatever is returned. Another thread may evaluate the condition.
bool Mutex::LockSlowWithDeadline(MuHow how, const Condition* condition, KernelTimeout timeout,
                                 int flags) {
  static const auto original =
      Original<bool (*)(Mutex*, MuHow, const Condition*, KernelTimeout, int)>(
          "_ZN4absl7debian35Mutex20LockSlowWithDeadlineEPKNS0_6MuHowSEPKNS0_9ConditionENS0_24"
          "synchronization_internal13KernelTimeoutEi");
  const AtHand mutex(this);
  if (condition != nullptr) __tsan_release(this);
  const bool holds = original(this, how, condition, timeout, flags);
  __tsan_acquire(this);
  return holds;
}

// `mutex` is held before and after.
bool CondVar::WaitCommon(Mutex* mutex, KernelTimeout timeout) {
  static const auto original = Original<bool (*)(CondVar*, Mutex*, KernelTimeout)>(
      "_ZN4absl7debian37CondVar10WaitCommonEPNS0_5MutexENS0_24synchronization_"
      "internal13KernelTimeoutE");
  const AtHand waited(mutex);
  __tsan_release(mutex);
  const bool timed_out = original(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool Condition::Eval() const {
  static const auto original =
      Original<bool (*)(const Condition*)>("_ZNK4absl7debian39Condition4EvalEv");
  void* const mutex = at_hand;
  if (mutex != nullptr) __tsan_acquire(mutex);
  const bool holds = original(this);
  if (mutex != nullptr) __tsan_release(mutex);
  return holds;
}

// HasBeenNotified() is inline and reads the flag atomically, so the release is on the flag.
void Notification::Notify() {
  static const auto original =
      Original<void (*)(Notification*)>("_ZN4absl7debian312Notification6NotifyEv");
  __tsan_release(&notified_yet_);
  original(this);
}

void Notification::WaitForNotification() const {
  static const auto original = Original<void (*)(const Notification*)>(
      "_ZNK4absl7debian312Notification19WaitForNotificationEv");
  original(this);
  __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto original = Original<bool (*)(const Notification*, Duration)>(
      "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = original(this, timeout);
  __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static const auto original = Original<bool (*)(const Notification*, Time)>(
      "_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE");
  const bool notified = original(this, deadline);
  __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

// Copies of a status share one representation. Our code increments its reference count, and
// Abseil's decrements it. So TSan would report the final delete as a race with every other copy.
void Status::UnrefNonInlined(uintptr_t rep) {
  static const auto original =
      Original<void (*)(uintptr_t)>("_ZN4absl7debian36Status15UnrefNonInlinedEm");
  auto* const shared = RepToPointer(rep);
  __tsan_release(shared);
  if (shared->ref.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  __tsan_acquire(shared);
  shared->ref = 1;
  original(rep);  // deletes it
}

ABSL_NAMESPACE_END
}  // namespace absl
