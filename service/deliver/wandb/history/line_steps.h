#ifndef SERVICE_DELIVER_WANDB_HISTORY_LINE_STEPS_H_
#define SERVICE_DELIVER_WANDB_HISTORY_LINE_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "service/model/batch.h"

namespace ranklog::deliver::wandb {

// The steps of a run's lines. They equal the steps of the rows, unless another store has brought
// the run to some step before. Then the lines of this store continue after that step, as in a
// single store. A row with an explicit step at or below it is a replay and has no line. The steps
// of rows that were logged without a step continue from it.
class LineSteps {
 public:
  // Sets the last step at the server before the next row.
  void SetFirstStep(int64_t step) { last_ = std::max(last_, step); }

  bool IsReplay(const model::Block& block, size_t row) const {
    return !block.counted && block.steps[row] <= last_;
  }
  // Takes the next row, which must not be a replay, and returns the step of its line.
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
  // A row with an explicit step up to this one is a replay; -1: no row is.
  int64_t last() const { return last_; }

 private:
  int64_t last_ = -1;  // last step at the server, or of a row that was logged without a step
  int64_t shift_ = 0;  // added to the steps of rows without an explicit step
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_HISTORY_LINE_STEPS_H_
