// How long something takes, by classes of durations.

#ifndef SERVICE_BASE_DURATION_HISTOGRAM_H_
#define SERVICE_BASE_DURATION_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace ranklog {

// Not thread-safe: it lies among the counters of a loop, under the loop's mutex, and is copied with
// them.
struct DurationHistogram {
  // Upper bounds of the classes, in seconds, each included; the last class has none. From a commit
  // on a fast disk to the longest wait for a tracker (180 s).
  static constexpr std::array<double, 15> kBounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

  std::array<uint64_t, kBounds.size() + 1> counts = {};  // by class
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
