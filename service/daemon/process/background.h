// Implements `--background`: ranklogd continues in a separate process, and reports to its starter
// whether it serves.

#ifndef SERVICE_DAEMON_PROCESS_BACKGROUND_H_
#define SERVICE_DAEMON_PROCESS_BACKGROUND_H_

#include <string>

#include "absl/status/status.h"
#include "service/base/unique_fd.h"

namespace ranklog::daemon {

class Background {
 public:
  // Forks. The child has its own session, `log` as stdout and stderr, and no other descriptor of
  // the starter. It returns from this function. The parent waits until the child calls Report() or
  // ends, prints the reported text, and exits with the reported code. Call it before any thread is
  // started.
  //   kFailedPrecondition  the directory of `log` is not private to this user
  absl::Status Enter(const std::string& log);
  // Reports to the starter, once. Does nothing on later calls, and for a daemon in the foreground.
  void Report(int exit_code, const std::string& text);

 private:
  UniqueFd starter_;  // write end of the pipe to the starter
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_PROCESS_BACKGROUND_H_
