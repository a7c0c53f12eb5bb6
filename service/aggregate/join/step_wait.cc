#include "service/aggregate/join/step_wait.h"

#include <algorithm>

namespace ranklog::aggregate {

StepWait::StepWait(const Limits& limits)
    : limits_{.step = limits.step,
              .first_row = std::min(limits.first_row, limits.step),
              .silent = std::min(limits.silent, limits.step)} {}

absl::Time StepWait::Until(int64_t step, uint32_t attempt, const std::vector<StreamRows*>& others,
                           bool absent_ranks, absl::Time now) {
  started_ = std::min(started_, now);
  absl::Time until = absent_ranks ? started_ + limits_.first_row : absl::InfinitePast();
  const absl::Time since = passed_times_.Since(step);
  for (const StreamRows* stream : others) {
    if (stream->attempt > attempt || stream->passed() >= step) continue;
    until = std::max(until, stream->is_silent()
                                ? std::max(std::max(started_, stream->joined) + limits_.first_row,
                                           since + limits_.silent)
                                : since + limits_.step);
  }
  return until;
}

void StepWait::GiveUp(int64_t step, uint32_t attempt, const std::vector<StreamRows*>& others) {
  for (StreamRows* stream : others) {
    stream->silent |= stream->attempt <= attempt && stream->passed() < step;
  }
}

}  // namespace ranklog::aggregate
