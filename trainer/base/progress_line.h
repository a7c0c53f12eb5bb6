#ifndef TRAINER_BASE_PROGRESS_LINE_H_
#define TRAINER_BASE_PROGRESS_LINE_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/time/time.h"

namespace ranklog::trainer {

// The progress of a training.
struct Position {
  int64_t step = 0;
  int64_t steps = 0;
  int64_t before = 0;  // completed steps when this start of the training began
  double loss = 0;
  double lr = 0;
  double tokens_per_second = 0;
  double val_loss = std::numeric_limits<double>::quiet_NaN();  // NaN: not known yet
  int64_t val_step = 0;                                        // the step of val_loss
  absl::Duration elapsed = absl::ZeroDuration();               // since the first step began
};

std::string FormatPosition(const Position& position);

// Shows it on stderr: in place on a terminal, a line every few seconds elsewhere. Its destructor
// ends the line.
class ProgressLine {
 public:
  // `shown`: false on all ranks but the first; every call then does nothing.
  explicit ProgressLine(bool shown);
  ~ProgressLine();
  void Show(const Position& position);

 private:
  const bool shown_;
  const bool terminal_;
  absl::Time last_ = absl::InfinitePast();
  bool in_place_ = false;  // the terminal's line is unfinished
};

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_PROGRESS_LINE_H_
