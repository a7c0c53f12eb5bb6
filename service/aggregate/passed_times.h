#ifndef SERVICE_AGGREGATE_PASSED_TIMES_H_
#define SERVICE_AGGREGATE_PASSED_TIMES_H_

#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace ranklog::aggregate {

// Since when the primaries have passed which step: for `step_wait`. Holds as many marks as there
// were steps passed since the oldest one that Forget() has left, so it must be told what is done
// with.
//
// Not thread-safe.
class PassedTimes {
 public:
  void Passed(int64_t step, absl::Time now) {
    // A primary that joins later, or starts anew, sets them back.
    while (!marks_.empty() && marks_.back().step > step) marks_.pop_back();
    if (marks_.empty() || step > marks_.back().step) marks_.push_back({step, now});
  }
  // No step below `step` will be asked for. What they passed last stays.
  void Forget(int64_t step) {
    while (marks_.size() > 1 && marks_.front().step < step) marks_.pop_front();
  }
  // For a step that they have passed. Forgets smaller ones.
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

#endif  // SERVICE_AGGREGATE_PASSED_TIMES_H_
