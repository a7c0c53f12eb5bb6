#ifndef SERVICE_AGGREGATE_JOIN_PASSED_TIMES_H_
#define SERVICE_AGGREGATE_JOIN_PASSED_TIMES_H_

#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace ranklog::aggregate {

// The times at which the primaries' watermark reached each step, for `step_wait`. Keeps one mark
// per step until Forget(), so call Forget() for steps that are done.
//
// Not thread-safe.
class PassedTimes {
 public:
  void Passed(int64_t step, absl::Time now) {
    // A primary that joins later, or restarts, moves the primaries back.
    while (!marks_.empty() && marks_.back().step > step) marks_.pop_back();
    if (marks_.empty() || step > marks_.back().step) marks_.push_back({step, now});
  }
  // No step below `step` will be queried. The last mark stays.
  void Forget(int64_t step) {
    while (marks_.size() > 1 && marks_.front().step < step) marks_.pop_front();
  }
  // Returns the time at which the primaries passed `step`, which they must have passed. Forgets
  // smaller steps.
  absl::Time Since(int64_t step) {
    Forget(step);
    return marks_.front().time;
  }

 private:
  struct Mark {
    int64_t step;
    absl::Time time;
  };
  std::deque<Mark> marks_;  // both ascending
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_PASSED_TIMES_H_
