// A histogram of durations.

#ifndef SERVICE_BASE_DURATION_HISTOGRAM_H_
#define SERVICE_BASE_DURATION_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace ranklog {

// Not thread-safe: it is one of the counters of a loop, guarded by the loop's mutex, and is copied
// with them.
struct DurationHistogram {
  // Inclusive upper bounds of the buckets, in seconds; the last bucket has no bound. They range
  // from a commit on a fast disk to long waits for a tracker (up to 180 s).
  static constexpr std::array<double, 15> kBounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

  std::array<uint64_t, kBounds.size() + 1> counts = {};  // by bucket
  double sum_seconds = 0;

  void Add(absl::Duration duration) {
    const double seconds = absl::ToDoubleSeconds(duration);
    ++counts[static_cast<size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), seconds) -
                                 kBounds.begin())];
    sum_seconds += seconds;
  }
};

}  // namespace ranklog

#endif  // SERVICE_BASE_DURATION_HISTOGRAM_H_
