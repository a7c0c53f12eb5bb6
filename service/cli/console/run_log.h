// Logs what a program prints as the console of a run.

#ifndef SERVICE_CLI_CONSOLE_RUN_LOG_H_
#define SERVICE_CLI_CONSOLE_RUN_LOG_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ranklog/ranklog.h"
#include "service/model/line_editor.h"

namespace ranklog::cli {

// Never waits, except in Finish(). What is printed before the run is known belongs to it too.
class RunLog {
 public:
  // A training prints some lines a second. A program that prints without an end must fill neither the
  // store nor the tracker: more than kLinesPerSecond, after the first kLinesAtOnce, are left out, and
  // a line says how many.
  static constexpr double kLinesPerSecond = 200;
  static constexpr double kLinesAtOnce = 10'000;
  // Lines that wait for a run, or for room in its spool. The oldest are left out.
  static constexpr size_t kMostWaiting = 10'000;
  static constexpr size_t kMostHeld = 200;
  static constexpr absl::Duration kFlushInterval = absl::Milliseconds(500);

  void Write(bool error, absl::string_view bytes, absl::Time now);
  // Logs the lines that have changed, if kFlushInterval has passed since the last time.
  void FlushIfDue(absl::Time now);
  // Joins the run of this handle.
  void Attach(const std::string& handle);
  bool attached() const { return run_.has_value(); }
  // Logs the last lines, and ends this part of the run.
  void Finish(absl::Time now);

 private:
  void Flush(absl::Time now);
  void Take(model::LineEditor* editor, absl::Time now);
  void PassHeld(absl::Time now);
  // Logs the lines that wait; false: there is no room for them now.
  bool Log();

  uint64_t next_ = 0;  // number of the next line
  model::LineEditor out_{false, &next_};
  model::LineEditor err_{true, &next_};
  std::optional<Run> run_;
  std::deque<model::ConsoleLine> held_;  // too many; the newest, because they may be the last words
  std::deque<model::ConsoleLine> waiting_;
  uint64_t left_out_ = 0;
  double allowed_ = kLinesAtOnce;
  absl::Time allowed_at_ = absl::InfiniteFuture();
  absl::Time flushed_ = absl::InfinitePast();
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_CONSOLE_RUN_LOG_H_
