// Speaks to a running daemon. The only place where the command line speaks gRPC.

#ifndef SERVICE_CLI_DAEMON_STATUS_H_
#define SERVICE_CLI_DAEMON_STATUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/storage/retention.h"

namespace ranklog::cli {

struct DaemonStatus {
  std::string address;
  std::string version;
  int64_t pid = 0;
  std::string state_dir;
  int64_t start_time_us = 0;
  std::string started_by;  // systemd, slurm, rank, user
  uint32_t live_streams = 0;
  uint32_t live_jobs = 0;  // with a rank that is attached
  uint32_t live_ranks = 0;
  double rows_per_second = 0;                // that came, in the last seconds
  absl::optional<double> growth_per_second;  // of the store's files, bytes; none: not known yet
  std::string store_error;                   // why rows cannot be stored; empty: they can
  std::string metrics_url;                   // empty: not served
  struct Destination {
    int64_t last_success_us = 0;  // Unix time; 0: none since the daemon started
    int64_t last_error_us = 0;
    std::string last_error;
  };
  std::map<std::string, Destination> destinations;  // by kind
  absl::optional<absl::Duration> keep_for;          // none: age removes nothing
  absl::optional<int64_t> keep_bytes;               // none: size removes nothing
  std::map<int64_t, std::string> stopped_runs;      // why, by their id in the store
  std::map<std::string, uint64_t> counters;
};

// `address` is unix:PATH.
//   kInvalidArgument  it is not
//   kUnavailable      no daemon answers there, or another user's. One that listens and is silent
//                     has two seconds, and is not asked again in the second after that; the
//                     message names its process.
// Not thread-safe.
absl::StatusOr<DaemonStatus> AskDaemon(const std::string& address);

// Whether AskDaemon() had no answer from `address` in time, in the second before, though somebody
// listens there.
bool IsSilent(const std::string& address);

// The process that AskDaemon() had no answer from there, ever: a daemon's, or systemd's, which bound
// the socket. 0: there is none, or it is of another pid namespace.
int64_t SilentPid(const std::string& address);

// Of addresses that AskDaemon() had no answer from in time, though somebody listens there: the
// first of those that FindDaemon() asks for whom `pid` listens. Empty: there is none.
std::string SilentAddress(int64_t pid, const std::string& address);

// What that address has: "it does not answer at ADDRESS: is process PID stopped (kill -CONT PID), or
// does its disk hang?"
std::string SilentText(int64_t pid, const std::string& address);

// Where a rank would look for its daemon: at $RANKLOG_ADDRESS alone if it is set, else at the usual
// addresses that are there, best first.
std::vector<std::string> UsualAddresses();

// The daemon of `state_dir`, if it listens at `address`, or where that is empty at one of the usual
// ones.
absl::optional<DaemonStatus> FindDaemon(const std::string& state_dir, const std::string& address);

// The same, for who wants something of the daemon that holds `state_dir`.
//   kUnavailable  it does not answer; the message says who holds the directory
absl::StatusOr<DaemonStatus> FindHolder(const std::string& state_dir, const std::string& address);

// Why the daemon cannot store rows now, such as a full disk, and what to do; empty if it can.
std::string StoreTrouble(const DaemonStatus& daemon);

// The unit of systemd that a process belongs to.
struct SystemdUnit {
  bool of_user_manager = false;
  std::string name;  // ranklogd.service, ranklogd@1000.service
};
// By its cgroup; none: there is no such unit.
absl::optional<SystemdUnit> UnitOf(int64_t pid);

// The log of a daemon that a rank started, which lies beside its socket.
struct DaemonLog {
  std::string path;
  std::string last_words;  // why it could not start; empty if it did
};

// Of the daemon at `address`, or where that is empty of the first usual place that has one.
absl::optional<DaemonLog> FindDaemonLog(const std::string& address);

// Has a daemon deliver a run, by its id in the store, to one more tracker. The credentials are by
// variable name; it holds them in memory.
//   kFailedPrecondition  it has no key for that tracker
//   kUnimplemented       it is of an older version
absl::Status AddDestination(const DaemonStatus& daemon, int64_t run, const std::string& kind,
                            const std::map<std::string, std::string>& credentials);

// Has a daemon remove a run, by its id in the store.
//   kFailedPrecondition  it may not go, as it runs, or a tracker lacks some of it: see `removal`
//   kUnimplemented       it is of an older version
absl::Status RemoveRun(const DaemonStatus& daemon, int64_t run, storage::Removal removal);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DAEMON_STATUS_H_
