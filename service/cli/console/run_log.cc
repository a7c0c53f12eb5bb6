#include "service/cli/console/run_log.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace ranklog::cli {
namespace {

constexpr size_t kBytesOfItem = 64 << 10;  // fits into a small ring several times
constexpr size_t kSpoolBytes = 4 << 20;    // some forty thousand lines, for times without a daemon
// Without a daemon, the lines stay in the spool, and the terminal is not to wait for them.
constexpr std::chrono::seconds kFinishTimeout{2};

}  // namespace

void RunLog::Write(bool error, absl::string_view bytes, absl::Time now) {
  (error ? err_ : out_).Write(bytes, absl::ToUnixMicros(now));
}

void RunLog::FlushIfDue(absl::Time now) {
  if (now >= flushed_ + kFlushInterval) Flush(now);
}

void RunLog::Attach(const std::string& handle) {
  Settings settings = Settings::FromEnvironment();
  settings.quiet = true;
  settings.spool_bytes = kSpoolBytes;
  settings.delivery_timeout = std::chrono::milliseconds(0);
  settings.finish_timeout = kFinishTimeout;
  run_.emplace(ranklog::Attach(handle, std::move(settings)));
}

void RunLog::Take(model::LineEditor* editor, absl::Time now) {
  for (model::ConsoleLine& line : editor->TakeChanged()) {
    held_.push_back(std::move(line));
    if (allowed_ >= 1) {
      --allowed_;
      PassHeld(now);
    } else if (held_.size() > kMostHeld) {
      held_.pop_front();
      ++left_out_;
    }
  }
}

void RunLog::PassHeld(absl::Time now) {
  if (left_out_ > 0) {
    waiting_.push_back(
        {next_++, absl::ToUnixMicros(now), true,
         absl::StrCat("[ranklog: ", std::exchange(left_out_, 0), " lines were left out here]")});
  }
  for (model::ConsoleLine& line : held_) waiting_.push_back(std::move(line));
  held_.clear();
}

void RunLog::Flush(absl::Time now) {
  flushed_ = now;
  if (now > allowed_at_) {
    allowed_ = std::min(kLinesAtOnce,
                        allowed_ + absl::ToDoubleSeconds(now - allowed_at_) * kLinesPerSecond);
  }
  allowed_at_ = now;
  Take(&out_, now);
  Take(&err_, now);
  if (run_) Log();
  while (waiting_.size() > kMostWaiting) {
    waiting_.pop_front();
    ++left_out_;
  }
}

bool RunLog::Log() {
  while (!waiting_.empty()) {
    std::vector<ConsoleLine> lines;
    for (size_t i = 0, bytes = 0; i < waiting_.size() && bytes < kBytesOfItem; ++i) {
      const model::ConsoleLine& line = waiting_[i];
      bytes += line.text.size() + 16;
      lines.push_back({line.number, line.time_us, line.error, line.text});
    }
    if (!run_->LogConsole(lines)) return false;
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(lines.size()));
  }
  return true;
}

void RunLog::Finish(absl::Time now) {
  Flush(now);
  if (!run_) return;
  PassHeld(now);
  // The daemon makes room in the spool. Waits as long as it does.
  size_t waiting = waiting_.size();
  absl::Time patience = absl::Now() + absl::FromChrono(kFinishTimeout);
  while (!Log() && absl::Now() < patience) {
    if (std::exchange(waiting, waiting_.size()) != waiting_.size()) {
      patience = absl::Now() + absl::FromChrono(kFinishTimeout);
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  run_->Finish();
  run_.reset();
}

}  // namespace ranklog::cli
