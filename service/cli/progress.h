// How far a long piece of work is, for a person who waits for it.

#ifndef SERVICE_CLI_PROGRESS_H_
#define SERVICE_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "service/cli/terminal.h"

namespace ranklog::cli {

// A bar of at most `terminal.width` columns: "export [####....]  50%  500/1000".
std::string BarText(const std::string& what, uint64_t done, uint64_t total,
                    const Terminal& terminal);

// On a terminal: a bar on one line of stderr, drawn ten times a second at most and only once the
// work has taken a second. Elsewhere: with `lines`, a line for each further ten per cent once the
// work has taken a second; without, nothing.
class Progress {
 public:
  Progress(std::string what, bool lines);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap enough to be called for every row.
  void Update(uint64_t done, uint64_t total);
  // Takes the bar away, so that other text can be written.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  const std::string what_;
  const bool lines_;
  const Terminal terminal_;
  Clock::time_point next_;
  uint64_t tenths_ = 0;  // of the last line
  uint32_t calls_ = 0;
  bool drawn_ = false;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_PROGRESS_H_
