#include "client/ticks.h"

#include <time.h>

#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ranklog::internal {
namespace {

uint64_t ClockNs(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

bool DetectSteadyCounter() {
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx;
  const bool invariant = __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1U << 8));
  if (!invariant) return false;
  // The kernel watches the counter across cores, and takes another clock when it drifts.
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string source;
  file >> source;
  return source == "tsc" || source == "kvm-clock" || source == "hyperv_clocksource_tsc_page";
#elif defined(__aarch64__)
  return true;  // the architecture's generic timer
#else
  return false;
#endif
}

struct Sample {
  uint64_t ticks;
  uint64_t monotonic_ns;
  uint64_t unix_ns;
};

// The clocks at one moment: the tightest of a few tries, so that being descheduled between two
// reads does not skew the rate.
Sample ReadClocks(bool steady_counter) {
  Sample best{};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    Sample sample;
    const uint64_t before = ReadTicks(steady_counter);
    sample.monotonic_ns = MonotonicNs();
    sample.unix_ns = ClockNs(CLOCK_REALTIME);
    const uint64_t width = ReadTicks(steady_counter) - before;
    sample.ticks = before + width / 2;
    if (width < best_width) {
      best_width = width;
      best = sample;
    }
  }
  return best;
}

}  // namespace

bool HasSteadyCounter() {
  static const bool steady = DetectSteadyCounter();
  return steady;
}

uint64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }

TickRate::TickRate() : steady_counter_(HasSteadyCounter()), us_per_tick_(1e-3) {
  const Sample first = ReadClocks(steady_counter_);
  first_ticks_ = first.ticks;
  first_ns_ = first.monotonic_ns;
}

void TickRate::Calibrate(v1::SpoolHeader* header) {
  Sample now = ReadClocks(steady_counter_);
  // A rate over less than a millisecond would be noise.
  while (now.monotonic_ns - first_ns_ < 1000000) now = ReadClocks(steady_counter_);
  if (steady_counter_) {
    us_per_tick_ = static_cast<double>(now.monotonic_ns - first_ns_) * 1e-3 /
                   static_cast<double>(now.ticks - first_ticks_);
  }
  const uint32_t next = 1 - header->calibration.load(std::memory_order_relaxed);
  v1::ClockCalibration& calibration = header->calibrations[next];
  calibration.base_ticks.store(now.ticks, std::memory_order_relaxed);
  calibration.base_unix_us.store(static_cast<int64_t>(now.unix_ns / 1000),
                                 std::memory_order_relaxed);
  calibration.us_per_tick.store(us_per_tick_, std::memory_order_relaxed);
  header->calibration.store(next, std::memory_order_release);
}

TickReader::TickReader(const v1::SpoolHeader& header) {
  const v1::ClockCalibration& calibration =
      header.calibrations[header.calibration.load(std::memory_order_acquire) & 1];
  base_ticks_ = calibration.base_ticks.load(std::memory_order_relaxed);
  base_unix_us_ = calibration.base_unix_us.load(std::memory_order_relaxed);
  us_per_tick_ = calibration.us_per_tick.load(std::memory_order_relaxed);
}

}  // namespace ranklog::internal
