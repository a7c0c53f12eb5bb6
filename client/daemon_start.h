// Starts ranklogd when none answers: detached from this process, once among all ranks of the node.

#ifndef CLIENT_DAEMON_START_H_
#define CLIENT_DAEMON_START_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/socket_address.h"
#include "ranklog/settings.h"

namespace ranklog::internal {

// The right to start the daemon of a socket, among the processes that use it. Held until the daemon
// answers or has had its time, so that the others do not start another meanwhile.
class StartLock {
 public:
  //   kUnavailable        another process has it
  //   kPermissionDenied   the directory cannot be written, or what is there is not ours
  static absl::StatusOr<std::unique_ptr<StartLock>> Take(const SocketPlace& place);
  ~StartLock();
  StartLock(const StartLock&) = delete;
  StartLock& operator=(const StartLock&) = delete;

 private:
  explicit StartLock(int fd) : fd_(fd) {}
  const int fd_;
};

// The program to start: `daemon` if it is not empty, else a ranklogd beside the program, beside
// this library, in the bin directory next to it, or in PATH; empty if there is none.
std::string FindDaemon(const std::string& daemon);

// Starts `program` at the settings' state and spool directories, in a session of its own, without
// our descriptors, signals' state, output or preloaded libraries; what it prints goes to
// ranklogd.log beside the socket. It is no child of ours: nobody has to wait for it.
// `former_state_dir` is that of the daemon before, or empty: where the settings name none, the new
// one keeps its store there, too, if it can.
absl::Status StartDaemon(const std::string& program, const SocketPlace& place,
                         const Settings& settings, const std::string& former_state_dir);

// Why the last daemon that a rank started at `place` could not start, with its log's path; empty if
// it did start, or none was. The log's last lines say it.
std::string LastWords(const SocketPlace& place);

}  // namespace ranklog::internal

#endif  // CLIENT_DAEMON_START_H_
