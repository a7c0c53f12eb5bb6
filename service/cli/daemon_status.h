// Asks a running daemon about itself. The only place where the command line speaks gRPC.

#ifndef SERVICE_CLI_DAEMON_STATUS_H_
#define SERVICE_CLI_DAEMON_STATUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ranklog::cli {

struct DaemonStatus {
  std::string address;
  std::string version;
  int64_t pid = 0;
  std::string state_dir;
  int64_t start_time_us = 0;
  std::string started_by;  // systemd, slurm, rank, user
  uint32_t live_streams = 0;
  std::map<std::string, uint64_t> counters;
};

// `address` is unix:PATH.
//   kInvalidArgument  it is not
//   kUnavailable      no daemon answers there
absl::StatusOr<DaemonStatus> AskDaemon(const std::string& address);

// Where daemons listen that were not told where, those first that a rank would try first.
std::vector<std::string> UsualAddresses();

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DAEMON_STATUS_H_
