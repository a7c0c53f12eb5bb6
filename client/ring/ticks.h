// The clock of the hot path: a counter that is read in a few nanoseconds, and its conversion to
// Unix time.

#ifndef CLIENT_RING_TICKS_H_
#define CLIENT_RING_TICKS_H_

#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "absl/base/thread_annotations.h"
#include "client/base/process.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {

// Whether the time-stamp counter has one constant rate on all cores. Decided once per process.
bool HasSteadyCounter();

// Nanoseconds of CLOCK_MONOTONIC: the ticks of a machine without such a counter.
uint64_t MonotonicNs();

inline uint64_t ReadTicks(bool steady_counter) {
#if defined(__x86_64__)
  if (steady_counter) return __rdtsc();
#elif defined(__aarch64__)
  if (steady_counter) {
    uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
  }
#endif
  return MonotonicNs();
}

// All clocks at one moment.
struct ClockSample {
  uint64_t ticks = 0;
  uint64_t monotonic_ns = 0;
  uint64_t unix_ns = 0;
};
ClockSample ReadClocks();

// The counter's rate, measured over the whole time since this object was made. Its error is about
// 10 us per second after the few milliseconds of Init(), and shrinks after that. Measured again if
// the counter and the clock diverge, as after a suspend of the machine. For one thread.
class TickRate {
 public:
  explicit TickRate(ClockSample (*read_clocks)() = ReadClocks);

  // Reads the clocks. The first call takes up to one millisecond.
  void Measure();

  // Stores the result of the last Measure() as the header's current calibration.
  void Calibrate(v1::SpoolHeader* header) const;

 private:
  bool HasDiverged() const;

  ClockSample (*const read_clocks_)();
  ClockSample first_;
  ClockSample agreed_;  // the latest sample the rate includes
  ClockSample last_;
  double us_per_tick_ = 0;  // 0: not measured yet
  bool sure_ = false;       // measured long enough to check the counter by this rate
};

// Converts ticks to Unix microseconds, by the header's current calibration.
class TickReader {
 public:
  explicit TickReader(const v1::SpoolHeader& header);
  int64_t UnixMicros(uint64_t ticks) const {
    return base_unix_us_ +
           static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(ticks - base_ticks_)) *
                                us_per_tick_);
  }

 private:
  uint64_t base_ticks_;
  int64_t base_unix_us_;
  double us_per_tick_;
};

// The rate of this process's counter.
TickRate& ProcessTickRate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());

// Updates the calibration of `rings` to the current clock. Only one thread may write calibrations.
void CalibrateClocks(const std::vector<v1::SpoolHeader*>& rings) ABSL_LOCKS_EXCLUDED(StateMutex());

}  // namespace ranklog::internal

#endif  // CLIENT_RING_TICKS_H_
