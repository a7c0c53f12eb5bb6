#include "trainer/data/data_progress.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "trainer/base/messages.h"

namespace ranklog::trainer {
namespace {

constexpr absl::Duration kSilent = absl::Seconds(2);          // a shorter part needs no progress
constexpr absl::Duration kRefresh = absl::Milliseconds(100);  // of the terminal's line

}  // namespace

DataProgress::DataProgress(bool shown)
    : DataProgress(shown, isatty(STDERR_FILENO) == 1, WriteMessage, absl::Now) {}

DataProgress::DataProgress(bool shown, bool terminal, std::function<void(const std::string&)> write,
                           std::function<absl::Time()> now)
    : shown_(shown), terminal_(terminal), write_(std::move(write)), now_(std::move(now)) {}

void DataProgress::Print(const std::string& line) {
  if (!shown_) return;
  write_(absl::StrCat(line, "\n"));
}

void DataProgress::Show(const std::string& what, uint64_t done, uint64_t total) {
  if (!shown_) return;
  const absl::Time now = now_();
  if (what != what_) {
    what_ = what;
    begin_ = now;
    tenths_ = 0;
  }
  if (now < begin_ + kSilent) return;
  const uint64_t percent = total == 0 ? 100 : done * 100 / total;
  if (terminal_) {
    if (now < last_ + kRefresh) return;
    last_ = now;
    write_(absl::StrCat(what, ": ", percent, " %"));  // the next one replaces it
  } else if (percent / 10 > tenths_) {
    tenths_ = percent / 10;
    write_(absl::StrCat(what, ": ", tenths_ * 10, " %\n"));
  }
}

}  // namespace ranklog::trainer
