// Checks this node for problems of a training that logs: room for spools, limits, clock, keys,
// connections to trackers, and supervision of the daemon.

#ifndef SERVICE_CLI_DOCTOR_NODE_CHECK_H_
#define SERVICE_CLI_DOCTOR_NODE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "service/cli/doctor/finding.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/globals.h"
#include "service/query/run_report.h"

namespace ranklog::cli {

// Whether the rings of `ranks` ranks fit where they are created first.
Finding CheckSpoolRoom(int ranks);

// Descriptors, file size and locked memory, as limited in this shell. A training or a daemon that
// is started here inherits these limits.
Finding CheckLimits(int ranks);

// Whether the clock is plausible and synchronized. `newest_us` is the start of the newest run in
// the store; 0: there are no runs.
Finding CheckClock(int64_t newest_us);

// Checks the keys that a daemon started here would find, and their servers, through the configured
// proxy. These are the servers of runs that go to W&B, and the public server if there is a key for
// it. Sends no request if there are neither.
std::vector<Finding> CheckServers(const Globals& globals, const std::string& state_dir,
                                  const std::vector<query::RunReport>& runs);

// Checks whether the end of a Slurm job step or of the user's session may end the daemon `pid`
// before its rows are delivered. nullopt: nothing is known to end it.
absl::optional<Finding> CheckSupervision(int64_t pid);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_NODE_CHECK_H_
