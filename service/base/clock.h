// The clock for waits and ages. Wall time (absl::Now()) only stamps data: it may jump.

#ifndef SERVICE_BASE_CLOCK_H_
#define SERVICE_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace ranklog {

// Never goes back; its zero is arbitrary, so it means nothing to another process or to a person.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace ranklog

#endif  // SERVICE_BASE_CLOCK_H_
