// Determines how long a step that the primaries have passed waits for other ranks.

#ifndef SERVICE_AGGREGATE_JOIN_STEP_WAIT_H_
#define SERVICE_AGGREGATE_JOIN_STEP_WAIT_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "service/aggregate/join/passed_times.h"
#include "service/aggregate/join/stream_rows.h"

namespace ranklog::aggregate {

// RunAggregator has the rules. One per run. Not thread-safe.
class StepWait {
 public:
  // As in RunAggregator::Options. `first_row` and `silent` are limited to `step`.
  struct Limits {
    absl::Duration step;
    absl::Duration first_row;
    absl::Duration silent;
  };
  explicit StepWait(const Limits& limits);

  // An attempt begins. Steps wait for its ranks as in the first attempt.
  void BeginAttempt() { started_ = absl::InfiniteFuture(); }
  // The primaries have passed all steps up to `step`.
  void Passed(int64_t step, absl::Time now) { passed_times_.Passed(step, now); }
  // Steps below `step` no longer wait.
  void Forget(int64_t step) { passed_times_.Forget(step); }

  // The deadline of the wait of `step` for `others` and for ranks without a stream. The primaries
  // must have a row at `step`, and must have passed it. Infinite past if all have passed it. A step
  // does not wait for streams of attempts after `attempt`.
  absl::Time Until(int64_t step, uint32_t attempt, const std::vector<StreamRows*>& others,
                   bool absent_ranks, absl::Time now);
  // The wait is over: streams that have not passed `step` are silent from now on.
  static void GiveUp(int64_t step, uint32_t attempt, const std::vector<StreamRows*>& others);

 private:
  const Limits limits_;
  PassedTimes passed_times_;
  // When the primaries passed the attempt's first step.
  absl::Time started_ = absl::InfiniteFuture();
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_STEP_WAIT_H_
