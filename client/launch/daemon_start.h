// Starts one ranklogd for all ranks of the node if no daemon answers. It is detached from this
// process.

#ifndef CLIENT_LAUNCH_DAEMON_START_H_
#define CLIENT_LAUNCH_DAEMON_START_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/settings/socket_address.h"
#include "ranklog/settings.h"

namespace ranklog::internal {

// A lock among the processes that use one socket: its holder may start the daemon. Held until the
// daemon answers or its start times out, so that no other process starts a second daemon.
class StartLock {
 public:
  //   kUnavailable        another process holds it
  //   kPermissionDenied   the directory is not writable, or the lock file is not ours
  static absl::StatusOr<std::unique_ptr<StartLock>> Take(const SocketLocation& place);
  ~StartLock();
  StartLock(const StartLock&) = delete;
  StartLock& operator=(const StartLock&) = delete;

 private:
  explicit StartLock(int fd) : fd_(fd) {}
  const int fd_;
};

// The program to start: `daemon` if it is not empty. Otherwise the first ranklogd found beside the
// program, beside this library, in the bin directory next to the library, or in PATH. Empty if
// there is none.
std::string FindDaemon(const std::string& daemon);
// The first program of this name in these places; before them beside the program `beside`, if that
// is a path.
std::string FindProgram(const std::string& name, const std::string& beside = "");
// The variables that a program of ours inherits: without secrets, preloaded libraries, and what a
// service manager told this process.
std::vector<std::string> ProgramEnvironment(const Settings& settings);
// Starts `arguments[0]`, a path, in a session of its own. It gets `descriptors` as 0, 1, ..., and
// inherits nothing else but the directory: no other descriptor, signal state or ignored signal. Only
// where close_range() fails, it inherits descriptors from 65,536 on without O_CLOEXEC. It is not our
// child, so nobody has to wait for it.
absl::Status StartProgram(std::vector<std::string> arguments, std::vector<std::string> variables,
                          const std::vector<int>& descriptors);

// Starts `program` with the state and spool directories of `settings`, in a session of its own. It
// does not inherit our descriptors, signal state, output or preloaded libraries. Its output goes to
// ranklogd.log beside the socket. It is not our child, so nobody has to wait for it.
// `former_state_dir` is the state directory of the previous daemon, or empty. If the settings name
// no state directory, the new daemon uses that one if it can.
absl::Status StartDaemon(const std::string& program, const SocketLocation& place,
                         const Settings& settings, const std::string& former_state_dir);

// Returns why the last daemon that a rank started at `place` failed to start, with the path of its
// log. The reason comes from the last lines of the log. Empty if it started, or if no start was
// tried.
std::string StartFailure(const SocketLocation& place);

}  // namespace ranklog::internal

#endif  // CLIENT_LAUNCH_DAEMON_START_H_
