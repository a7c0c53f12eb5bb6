// Lines on this process's stderr, which may be a terminal, a pipe that nobody reads, or closed.

#ifndef CLIENT_STDERR_LINES_H_
#define CLIENT_STDERR_LINES_H_

#include <deque>
#include <string>

#include "ranklog/settings.h"

namespace ranklog::internal {

// Never blocks, but for a file on a disk that hangs. For one thread, which has SIGPIPE blocked.
class StderrLines {
 public:
  // Writes now, or keeps the line until Flush() finds room. Cut to kMaxLine bytes, control
  // characters replaced.
  void Put(Severity severity, const std::string& text);
  // Writes what waits, as far as there is room.
  void Flush();

 private:
  std::deque<std::string> waiting_;  // at most kMaxWaiting; then the oldest goes
};

}  // namespace ranklog::internal

#endif  // CLIENT_STDERR_LINES_H_
