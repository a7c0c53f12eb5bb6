// What ranklogd is told: its command line, its configuration file and its environment.

#ifndef SERVICE_DAEMON_CONFIG_H_
#define SERVICE_DAEMON_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/storage/retention.h"

namespace ranklog::daemon {

struct Config {
  std::vector<std::string> state_dirs;  // where the log may be kept, best first
  std::string socket_path;
  std::vector<std::string>
      spool_dirs;  // where rings of ranks may lie: the one named by a flag, then the standard ones
  absl::Duration drain = absl::ZeroDuration();
  absl::Duration idle_exit = absl::InfiniteDuration();
  storage::KeepLimits keep;
  std::string log_level = "info";
  std::string log_format = "text";   // or json
  absl::optional<int> metrics_port;  // none: no metrics are served
  bool background = false;
  bool core_dumps = false;
  absl::Duration commit_interval = absl::Milliseconds(50);
  absl::Duration step_wait = absl::Seconds(30);
  absl::Duration first_row_wait = absl::Seconds(5);
  absl::Duration wandb_transmit_interval = absl::Seconds(15);
};

// What parsing came to: a configuration, or a text to print and an exit code (0 for --help, --version
// and --print-config, 2 for wrong usage).
struct Parsed {
  Config config;
  bool run = false;  // else `text` is to be printed
  int exit_code = 0;
  std::string text;
};

// Flags go before the configuration file, that before the environment (RANKLOG_STATE_DIR,
// RANKLOG_ADDRESS, RANKLOG_SPOOL_DIR, XDG_STATE_HOME, XDG_RUNTIME_DIR, HOME). Reads the
// environment: not thread-safe.
Parsed ParseConfig(int argc, const char* const* argv);

// systemd, slurm, rank or user. A daemon that a rank started ends with its job step where Slurm
// tracks by cgroup.
std::string StartedBy();
inline constexpr char kRank[] = "rank";

// $RANKLOG_ADDRESS, else ranklogd.sock in the first of v1::StandardDirs() that can be used.
std::string DefaultAddress();

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_CONFIG_H_
