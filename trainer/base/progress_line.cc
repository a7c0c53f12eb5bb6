#include "trainer/base/progress_line.h"

#include <unistd.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "trainer/base/messages.h"

namespace ranklog::trainer {
namespace {

// Shorter intervals are unreadable.
constexpr absl::Duration kTerminalPause = absl::Milliseconds(100);
constexpr absl::Duration kLogPause = absl::Seconds(5);  // a minute is a dozen lines of a log
// For an estimate of the time left: the first steps are slower than the others.
constexpr int64_t kEnoughSteps = 10;
constexpr absl::Duration kEnoughTime = absl::Seconds(10);  // of slow steps, two are enough

std::string Clock(absl::Duration time) {
  const int64_t seconds = absl::ToInt64Seconds(time);
  if (seconds >= 3600)
    return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
}

}  // namespace

std::string FormatPosition(const Position& at) {
  std::string line = absl::StrFormat("step %d/%d  train/loss %.3f", at.step, at.steps, at.loss);
  if (!std::isnan(at.val_loss)) {
    absl::StrAppendFormat(&line, "  val/loss %.3f", at.val_loss);
    if (at.val_step != at.step) absl::StrAppend(&line, " (step ", at.val_step, ")");
  }
  absl::StrAppendFormat(&line, "  lr %.2e  %.0f tokens/s", at.lr, at.tokens_per_second);
  const int64_t done = at.step - at.before;
  if (at.step == at.steps) {
    absl::StrAppendFormat(&line, "  in %s", Clock(at.elapsed));
  } else if (done >= kEnoughSteps || (done > 1 && at.elapsed >= kEnoughTime)) {
    absl::StrAppendFormat(&line, "  %s left", Clock(at.elapsed * (at.steps - at.step) / done));
  }
  return line;
}

ProgressLine::ProgressLine(bool shown) : shown_(shown), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (in_place_) WriteProgress("\n");
}

void ProgressLine::Show(const Position& position) {
  if (!shown_) return;
  const bool last = position.step == position.steps;
  const absl::Time now = absl::Now();
  if (!last && now < last_ + (terminal_ ? kTerminalPause : kLogPause)) return;
  last_ = now;
  const std::string line = FormatPosition(position);
  if (terminal_) {
    WriteProgress(absl::StrCat("\r\033[K", line, last ? "\n" : ""));
    in_place_ = !last;
  } else {
    WriteProgress(line + "\n");
  }
}

}  // namespace ranklog::trainer
