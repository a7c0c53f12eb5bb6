// A descriptor from which a program's output is read, and the one that it is written to.

#ifndef SERVICE_CLI_CONSOLE_SOURCE_H_
#define SERVICE_CLI_CONSOLE_SOURCE_H_

#include <poll.h>

#include <vector>

#include "absl/time/time.h"
#include "service/base/unique_fd.h"
#include "service/cli/console/run_log.h"

namespace ranklog::cli {

struct Source {
  UniqueFd from;        // not blocking; closed at its end
  int to = -1;          // STDOUT_FILENO or STDERR_FILENO
  bool broken = false;  // nobody reads the output any more
  bool open() const { return from.get() >= 0; }
};

// Both copy what can be read, unchanged, and give it to the log. They close a source at its end; also
// if nobody reads the output any more, so that the program gets the signal for that.
// Copies everything that can be read now.
void Drain(std::vector<Source>* sources, RunLog* log);
// Waits until a source or one of `others` can be read, at most for `timeout`. Copies from the sources.
void CopyUntil(std::vector<Source>* sources, RunLog* log, std::vector<pollfd>* others,
               absl::Duration timeout);
bool AnyOpen(const std::vector<Source>& sources);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_CONSOLE_SOURCE_H_
