#include "client/base/event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace ranklog::internal {

void Event::WaitUntil(uint32_t seen, Time deadline) const {
  const auto until = deadline.time_since_epoch();  // CLOCK_MONOTONIC
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
  timespec time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = std::chrono::nanoseconds(until - seconds).count();
  syscall(SYS_futex, &count_, FUTEX_WAIT_BITSET_PRIVATE, seen, &time, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void Event::NotifyAll() {
  count_.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX);
}

}  // namespace ranklog::internal
