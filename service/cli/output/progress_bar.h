// Shows the progress of long work to a waiting user.

#ifndef SERVICE_CLI_OUTPUT_PROGRESS_BAR_H_
#define SERVICE_CLI_OUTPUT_PROGRESS_BAR_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "service/cli/output/terminal.h"

namespace ranklog::cli {

// A bar of at most `terminal.width` columns: "export [####....]  50%  500/1000". `figures`: shown
// instead of the last part.
std::string BarText(const std::string& what, uint64_t done, uint64_t total,
                    const Terminal& terminal, const std::string& figures = "");

// On a terminal: one line of stderr with a bar, drawn at most ten times a second. Not on a
// terminal: with `lines`, one line for each ten per cent; else nothing. Shows nothing in the first
// second of the work.
class ProgressBar {
 public:
  // `what` names the work. `lines`: print lines if stderr is not a terminal.
  ProgressBar(std::string what, bool lines);
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Cheap enough to call for every row, without `figures`.
  void Update(uint64_t done, uint64_t total, const std::string& figures = "");
  // Erases the bar, so that other text can be printed.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  const std::string what_;
  const bool lines_;
  const Terminal terminal_;
  Clock::time_point next_;
  uint64_t tenths_ = 0;  // tenths of the work at the last printed line
  uint32_t calls_ = 0;
  bool drawn_ = false;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_PROGRESS_BAR_H_
