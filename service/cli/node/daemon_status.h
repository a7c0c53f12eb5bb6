// Queries a running daemon. The command line uses gRPC only here.

#ifndef SERVICE_CLI_NODE_DAEMON_STATUS_H_
#define SERVICE_CLI_NODE_DAEMON_STATUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/storage/database/retention.h"

namespace ranklog::cli {

struct DaemonStatus {
  std::string address;
  std::string version;
  int64_t pid = 0;
  std::string state_dir;
  int64_t start_time_us = 0;
  std::string started_by;  // systemd, slurm, rank, user
  // Whether it writes to ranklogd.log beside its socket. A user's daemon may, too.
  bool logs_to_file() const { return started_by == "rank" || started_by == "slurm"; }
  uint32_t live_streams = 0;
  uint32_t live_jobs = 0;  // jobs with an attached rank
  uint32_t live_ranks = 0;
  double rows_per_second = 0;  // received in the last seconds
  // Growth of the store's files in bytes; nullopt: not known yet.
  absl::optional<double> growth_per_second;
  std::string store_error;  // why rows cannot be stored; empty: they can
  std::string metrics_url;  // empty: metrics are not served
  struct Destination {
    int64_t last_success_us = 0;  // Unix time; 0: no success since the daemon started
    int64_t last_error_us = 0;
    std::string last_error;
  };
  std::map<std::string, Destination> destinations;  // by kind
  absl::optional<absl::Duration> keep_for;          // nullopt: age removes nothing
  int64_t content_quota = 0;                        // bytes; 0: no large items
  absl::optional<int64_t> keep_bytes;               // nullopt: size removes nothing
  std::map<int64_t, std::string> stopped_runs;      // errors by the run's id in the store
  std::map<std::string, uint64_t> counters;
  // See v1::PeerStatus; nullopt: the daemon has an older version.
  struct Peer {
    std::string key_file;
    std::string fingerprint;
    std::string address;
    std::string error;
    struct Link {
      int64_t run = 0;  // its id in the store
      std::string home;
      std::string error;
      uint64_t waiting_rows = 0;
      int64_t last_answer_us = 0;
      double stuck_seconds = 0;  // how long the error has lasted, and rows or an end have waited
      // The daemon of rank 0's node may come a little later.
      bool is_stuck() const { return stuck_seconds > 60; }
    };
    std::vector<Link> links;
    struct Node {
      std::string name;
      double silent_seconds = 0;
      uint32_t streams = 0;
    };
    std::vector<Node> nodes;
  };
  absl::optional<Peer> peer;
};

// "rank 0's node at HOME for 2 m: ERROR"
std::string StuckText(const DaemonStatus::Peer::Link& link);

// Whether the process is a daemon. If not, a holder of a state directory is a `ranklog sync`, and a
// listener may be systemd, which bound the socket for a daemon.
bool IsDaemon(int64_t pid);

// Asks the daemon at `address`, which has the form unix:PATH. Not thread-safe.
//   kInvalidArgument  `address` has another form, or its path is too long for a socket
//   kUnavailable      no daemon of this user answers there. A process that listens but does not
//                     answer gets two seconds. It is not asked again within the next second, and
//                     the message names it
absl::StatusOr<DaemonStatus> AskDaemon(const std::string& address);

// Whether AskDaemon() timed out at `address` within the last second although a process listens
// there.
bool TimedOut(const std::string& address);

// The process that let the last AskDaemon() at `address` time out. It is the daemon, or systemd,
// which bound the socket. 0: no such timeout, or a process in another pid namespace.
int64_t TimedOutPid(const std::string& address);

// The first of FindDaemon()'s addresses where AskDaemon() timed out and the listener may be `pid`.
// The listener is then `pid` itself, or a process that is not a daemon, such as systemd. Empty: no
// address matches.
std::string TimedOutAddress(int64_t pid, const std::string& address);

// Describes that state: "it does not answer at ADDRESS: is process PID stopped (kill -CONT PID), or
// does its disk hang?"
std::string TimeoutText(int64_t pid, const std::string& address);

// The address that the user named: `address`, which is that of --address, else $RANKLOG_ADDRESS.
// Empty: neither is set.
std::string NamedAddress(const std::string& address);
// The socket path of a daemon that would be started here: at NamedAddress(), else the default one.
std::string SocketPath(const std::string& address);
// The addresses where a rank looks for its daemon: only NamedAddress() if there is one, else
// StandardAddresses().
std::vector<std::string> AddressesOfRanks(const std::string& address);
// The standard addresses that exist, best first.
std::vector<std::string> StandardAddresses();

// The daemon of `state_dir` if it listens at one of AddressesOfRanks().
absl::optional<DaemonStatus> FindDaemon(const std::string& state_dir, const std::string& address);

// Why $RANKLOG_ADDRESS does not lead to the daemon of `state_dir`: it is not an address, or that
// daemon listens at a standard address. Empty: neither is the case.
std::string WrongAddressText(const std::string& state_dir);

// A daemon that listens at one of AddressesOfRanks() but keeps another directory, if no daemon
// holds `state_dir`. It has the ranks' rows, and commands for `state_dir` do not show them.
absl::optional<DaemonStatus> FindOtherDaemon(const std::string& state_dir,
                                             const std::string& address);
// "the daemon that ranks find, pid 12 at ADDRESS, keeps DIR"
std::string OtherDaemonText(const DaemonStatus& daemon);

// The same as FindDaemon(), for callers that need the daemon that holds `state_dir`.
//   kUnavailable  it does not answer; the message names the process that holds the directory
absl::StatusOr<DaemonStatus> FindHolder(const std::string& state_dir, const std::string& address);

// Returns why the daemon cannot store rows now, such as a full disk, with advice; empty if it can.
std::string StoreProblem(const DaemonStatus& daemon);

// Asks a daemon to deliver a run, given by its id in the store, to one more tracker. The
// credentials are given by variable name. The daemon holds them in memory only. `settings` of the
// tracker are for the run's job; an older daemon ignores them.
//   kFailedPrecondition  the daemon has no key for that tracker, or the settings cannot change
//   kUnimplemented       the daemon has an older version
absl::Status AddDestination(const DaemonStatus& daemon, int64_t run, const std::string& kind,
                            const std::map<std::string, std::string>& credentials,
                            const std::map<std::string, std::string>& settings);

// Asks a daemon to remove a run, given by its id in the store.
//   kFailedPrecondition  `removal` does not permit it: the run is running, or a tracker lacks rows
//   kUnimplemented       the daemon has an older version
absl::Status RemoveRun(const DaemonStatus& daemon, int64_t run, storage::Removal removal);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_DAEMON_STATUS_H_
