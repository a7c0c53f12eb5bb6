// The configuration of ranklogd, from its command line, its configuration file and its environment.

#ifndef SERVICE_DAEMON_CONFIG_CONFIG_H_
#define SERVICE_DAEMON_CONFIG_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/base/host_port.h"
#include "service/storage/database/retention.h"

namespace ranklog::daemon {

// The initial value of a member is the default of its option. A new option also has an entry in
// deploy/config/ranklogd.toml; a test compares the two.
struct Config {
  std::vector<std::string> state_dirs;  // candidates for the state directory, best first
  std::string socket_path;
  // Where to look for rings: the directory of the flag, then the standard ones.
  std::vector<std::string> spool_dirs;
  absl::Duration drain = absl::ZeroDuration();
  absl::Duration idle_exit = absl::InfiniteDuration();
  storage::KeepLimits keep;
  int64_t content_bytes = int64_t{4} << 30;
  std::string log_level = "info";
  std::string log_format = "text";   // text or json
  absl::optional<int> metrics_port;  // nullopt: no metrics are served
  bool background = false;
  bool core_dumps = false;
  // Daemons of other nodes of a job. They talk to each other only if a key exists.
  absl::optional<HostPort> peer_listen;  // nullopt: it does not listen for them
  std::string peer_key_file;             // empty: off
  bool peer_key_required = false;  // the user named the file, so it is an error if it is absent
  absl::optional<HostPort> peer;   // the daemon of rank 0's node, whatever the ranks say
  absl::Duration commit_interval = absl::Milliseconds(50);
  absl::Duration step_wait = absl::Seconds(30);
  absl::Duration first_row_wait = absl::Seconds(5);
  absl::Duration transmit_interval = absl::Seconds(15);
  absl::Duration sample_interval = absl::Seconds(15);  // of system metrics; zero: none
  std::vector<std::string> sample_disks = {"/"};
  bool sample_cores = false;
};

// The result of parsing: a configuration, or a text to print and an exit code (0 for --help,
// --version and --print-config, 2 for wrong usage).
struct Parsed {
  Config config;
  bool run = false;  // if false, print `text` and exit
  int exit_code = 0;
  std::string text;
};

// Flags take precedence over the configuration file, and the file over the environment
// (RANKLOG_STATE_DIR, RANKLOG_ADDRESS, RANKLOG_SPOOL_DIR, RANKLOG_SAMPLE_INTERVAL,
// RANKLOG_TRANSMIT_INTERVAL, RANKLOG_PEER_LISTEN, RANKLOG_PEER_KEY, RANKLOG_PEER, XDG_CONFIG_HOME,
// XDG_STATE_HOME, XDG_RUNTIME_DIR, HOME). Not thread-safe, because it reads the environment.
Parsed ParseConfig(int argc, const char* const* argv);

// systemd, slurm, rank or user. If a rank started the daemon and Slurm tracks processes by cgroup,
// the daemon ends with the rank's job step.
std::string StartedBy();
inline constexpr char kRank[] = "rank";

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_CONFIG_CONFIG_H_
