// The clock for waits and ages. Wall time (absl::Now()) may jump, so it only stamps data.

#ifndef SERVICE_BASE_CLOCK_H_
#define SERVICE_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace ranklog {

// Monotonic. Its zero is arbitrary, so the value has no meaning outside this process.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace ranklog

#endif  // SERVICE_BASE_CLOCK_H_
