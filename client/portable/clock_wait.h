// pthread_cond_clockwait(3) for glibc before 2.30, which lacks it.

#ifndef CLIENT_PORTABLE_CLOCK_WAIT_H_
#define CLIENT_PORTABLE_CLOCK_WAIT_H_

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

namespace ranklog::internal {

inline int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

inline int64_t NanosecondsNow(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return Nanoseconds(now);
}

// Waits until `condition` is signalled (returns 0) or `clock` reaches `deadline` (ETIMEDOUT). Wakes
// after at most kLongest without either (0); spurious wake-ups are allowed. Old glibc can wait only
// for a time of day, and that clock may be set during the wait; so each wait is short.
inline int WaitForAWhile(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                         const timespec& deadline) {
  constexpr int64_t kLongest = 100'000'000;
  const int64_t left = Nanoseconds(deadline) - NanosecondsNow(clock);
  if (left <= 0) return ETIMEDOUT;
  const int64_t until = NanosecondsNow(CLOCK_REALTIME) + std::min(left, kLongest);
  const timespec wake{.tv_sec = until / 1'000'000'000, .tv_nsec = until % 1'000'000'000};
  const int result = pthread_cond_timedwait(condition, mutex, &wake);
  return result == ETIMEDOUT && NanosecondsNow(clock) < Nanoseconds(deadline) ? 0 : result;
}

}  // namespace ranklog::internal

#endif  // CLIENT_PORTABLE_CLOCK_WAIT_H_
