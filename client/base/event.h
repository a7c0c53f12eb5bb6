// An event on which threads wait until another thread notifies it.

#ifndef CLIENT_BASE_EVENT_H_
#define CLIENT_BASE_EVENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ranklog::internal {

// Not a condition variable: glibc's counts the threads that wait, and its notify_all() waits for
// them. A signal handler may interrupt such a thread and call exit(), so that the thread never runs
// again. Then every thread that notifies would hang. This class keeps no record of its waiters.
//
//   const uint32_t seen = event.Count();
//   if (!IsDone()) event.WaitUntil(seen, deadline);
class Event {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Call this before you check the condition.
  uint32_t Count() const { return count_.load(std::memory_order_acquire); }
  // Waits until a NotifyAll() after Count() returned `seen`. May return early.
  void WaitUntil(uint32_t seen, Time deadline) const;
  void NotifyAll();

 private:
  std::atomic<uint32_t> count_ = 0;
};

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_EVENT_H_
