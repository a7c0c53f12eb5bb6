// Writes lines to this process's stderr, which may be a terminal, a closed descriptor, or a pipe
// that nobody reads.

#ifndef CLIENT_BASE_STDERR_LINES_H_
#define CLIENT_BASE_STDERR_LINES_H_

#include <deque>
#include <string>

#include "ranklog/settings.h"

namespace ranklog::internal {

// Blocks only if stderr is a file on a disk that hangs. Not thread-safe. Block SIGPIPE in the
// calling thread.
class StderrLines {
 public:
  // Writes the line now, or keeps it until Flush() finds room. Cuts it to kMaxLine bytes and
  // replaces control characters.
  void Put(Severity severity, const std::string& text);
  // Writes the waiting lines, as far as there is room.
  void Flush();

 private:
  std::deque<std::string> waiting_;  // at most kMaxWaiting; then the oldest is dropped
};

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_STDERR_LINES_H_
