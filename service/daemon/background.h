// `--background`: ranklogd goes on in a process of its own, and its starter learns whether it
// serves.

#ifndef SERVICE_DAEMON_BACKGROUND_H_
#define SERVICE_DAEMON_BACKGROUND_H_

#include <string>

#include "absl/status/status.h"
#include "service/ingest/unique_fd.h"

namespace ranklog::daemon {

class Background {
 public:
  // Splits this process. The new one has a session of its own, `log` for stdout and stderr, no other
  // descriptor, and goes on here. The old one waits until the new one calls Report() or ends, prints
  // what it said, and exits with its code. Call before any thread is started.
  //   kFailedPrecondition  the directory of `log` is not ours alone
  absl::Status Enter(const std::string& log);
  // Once; later calls, and those of a daemon in the foreground, do nothing.
  void Report(int exit_code, const std::string& text);

 private:
  ingest::UniqueFd starter_;  // a pipe
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_BACKGROUND_H_
