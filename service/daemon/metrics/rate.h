// The growth rate of a total.

#ifndef SERVICE_DAEMON_METRICS_RATE_H_
#define SERVICE_DAEMON_METRICS_RATE_H_

#include <deque>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace ranklog::daemon {

// Uses a sliding window over the totals that its owner adds. Not thread-safe.
class Rate {
 public:
  // `least` is the shortest time span that gives a rate.
  Rate(absl::Duration window, absl::Duration least) : window_(window), least_(least) {}

  void Add(absl::Time steady_now, double total) {
    totals_.emplace_back(steady_now, total);
    // Keeps one total from before the window, so that the whole window is covered.
    while (totals_.size() > 2 && totals_[1].first <= steady_now - window_) totals_.pop_front();
  }

  // nullopt: the totals cover less than the shortest time span.
  absl::optional<double> PerSecond() const {
    if (totals_.empty()) return absl::nullopt;
    const absl::Duration known = totals_.back().first - totals_.front().first;
    if (known < least_) return absl::nullopt;
    return (totals_.back().second - totals_.front().second) / absl::ToDoubleSeconds(known);
  }

 private:
  const absl::Duration window_;
  const absl::Duration least_;
  std::deque<std::pair<absl::Time, double>> totals_;  // oldest first
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_METRICS_RATE_H_
