#include "client/ring/ticks.h"

#include <time.h>

#include <cmath>
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
  // The kernel checks the counter across cores, and uses another clock source if the counter
  // drifts.
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

constexpr uint64_t kLeastNs = 1'000'000;   // below this, reading the clocks is noise
constexpr uint64_t kSureNs = 100'000'000;  // over this, the noise is 1 in 100,000
// NTP changes a clock's rate by at most half of this.
constexpr double kMostDrift = 1e-3;

double UsPerTick(const ClockSample& from, const ClockSample& to) {
  return static_cast<double>(to.monotonic_ns - from.monotonic_ns) * 1e-3 /
         static_cast<double>(to.ticks - from.ticks);
}

}  // namespace

bool HasSteadyCounter() {
  static const bool steady = DetectSteadyCounter();
  return steady;
}

uint64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }

// Returns the tightest of a few samples, so that a descheduling between two reads does not skew the
// rate.
ClockSample ReadClocks() {
  const bool steady_counter = HasSteadyCounter();
  ClockSample best;
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    ClockSample sample;
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

TickRate::TickRate(ClockSample (*read_clocks)())
    : read_clocks_(read_clocks), first_(read_clocks()), agreed_(first_), last_(first_) {}

bool TickRate::HasDiverged() const {
  return std::abs(UsPerTick(agreed_, last_) / us_per_tick_ - 1) > kMostDrift;
}

void TickRate::Measure() {
  do {
    last_ = read_clocks_();
  } while (us_per_tick_ == 0 && last_.monotonic_ns - first_.monotonic_ns < kLeastNs);
  const bool long_enough = last_.monotonic_ns - agreed_.monotonic_ns >= kSureNs;
  if (last_.ticks <= agreed_.ticks || (sure_ && long_enough && HasDiverged())) {
    first_ = agreed_ = last_;
    sure_ = false;
  } else if (us_per_tick_ == 0 || long_enough) {
    us_per_tick_ = UsPerTick(first_, last_);
    agreed_ = last_;
    sure_ = long_enough;
  }
}

void TickRate::Calibrate(v1::SpoolHeader* header) const {
  const uint32_t next = 1 - (header->calibration.load(std::memory_order_relaxed) & 1);
  v1::ClockCalibration& calibration = header->calibrations[next];
  calibration.base_ticks.store(last_.ticks, std::memory_order_relaxed);
  calibration.base_unix_us.store(static_cast<int64_t>(last_.unix_ns / 1000),
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

TickRate& ProcessTickRate() {
  static TickRate rate;
  return rate;
}

void CalibrateClocks(const std::vector<v1::SpoolHeader*>& rings) {
  MutexLock lock(StateMutex());
  ProcessTickRate().Measure();
  for (v1::SpoolHeader* const ring : rings) ProcessTickRate().Calibrate(ring);
}

}  // namespace ranklog::internal
