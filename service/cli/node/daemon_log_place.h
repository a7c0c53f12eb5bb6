// Where the log of a daemon is.

#ifndef SERVICE_CLI_NODE_DAEMON_LOG_PLACE_H_
#define SERVICE_CLI_NODE_DAEMON_LOG_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"

namespace ranklog::cli {

// The systemd unit of a process.
struct SystemdUnit {
  bool of_user_manager = false;
  std::string name;  // ranklogd.service, ranklogd@1000.service
};
// Reads the unit from the process's cgroup; nullopt if it belongs to no service.
absl::optional<SystemdUnit> UnitOf(int64_t pid);

// The log of a daemon that a rank started. It is beside the daemon's socket.
struct DaemonLog {
  std::string path;
  std::string last_words;  // why the daemon could not start; empty if it did
};

// The log of the daemon at NamedAddress(). If there is none, the first log at a standard place.
absl::optional<DaemonLog> FindDaemonLog(const std::string& address);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_DAEMON_LOG_PLACE_H_
