// What threads wait for until another thread notifies it.

#ifndef CLIENT_EVENT_H_
#define CLIENT_EVENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ranklog::internal {

// Not a condition variable: glibc's keeps a count of the threads that wait, and its notify_all() waits
// for them. A thread that a signal handler interrupts there, and never returns to as it calls exit(),
// would then stop all who notify. This one keeps nothing of who waits.
//
//   const uint32_t seen = event.Count();
//   if (!IsDone()) event.WaitUntil(seen, deadline);
class Event {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // To be read before the look at what is waited for.
  uint32_t Count() const { return count_.load(std::memory_order_acquire); }
  // Waits until somebody has notified since Count() returned `seen`. May return early.
  void WaitUntil(uint32_t seen, Time deadline) const;
  void NotifyAll();

 private:
  std::atomic<uint32_t> count_ = 0;
};

}  // namespace ranklog::internal

#endif  // CLIENT_EVENT_H_
