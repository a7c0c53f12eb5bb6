#ifndef SERVICE_DELIVER_WANDB_LINE_STEPS_H_
#define SERVICE_DELIVER_WANDB_LINE_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "service/model/batch.h"

namespace ranklog::deliver::wandb {

// The steps of a run's lines. They are those of the rows, unless another store has brought the run
// to a step before: then the lines of this one go on behind that, as in one store. A row that was
// given a step up to there is a replay and has no line; rows that were logged without a step count
// on from there.
class LineSteps {
 public:
  // The last step that was there before the next row.
  void StartBehind(int64_t step) { last_ = std::max(last_, step); }

  bool IsReplay(const model::Block& block, size_t row) const {
    return !block.counted && block.steps[row] <= last_;
  }
  // Takes the next row, which is not a replay, and returns the step of its line.
  int64_t Take(const model::Block& block, size_t row) {
    const int64_t step = block.steps[row];
    if (last_ < 0) return step;
    if (!block.counted) {
      shift_ = 0;
      return step;
    }
    if (step + shift_ <= last_) shift_ = last_ + 1 - step;
    return last_ = step + shift_;
  }
  // A row that was given a step up to this one is a replay; -1: none is.
  int64_t last() const { return last_; }

 private:
  int64_t last_ = -1;  // that was there, or that a row has that was logged without one
  int64_t shift_ = 0;  // of rows without a step
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_LINE_STEPS_H_
