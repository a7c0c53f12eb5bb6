// What of this node could hurt a training that logs: room for spools, limits, clock, keys, the way
// to the trackers, and who started the daemon.

#ifndef SERVICE_CLI_NODE_CHECK_H_
#define SERVICE_CLI_NODE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "service/cli/daemon_status.h"
#include "service/cli/examination.h"
#include "service/cli/run_report.h"

namespace ranklog::cli {

// Whether the rings of `ranks` ranks find room where they are put first.
Finding LookAtSpoolRoom(int ranks);

// Descriptors, the size of files, locked memory: of this shell, which a training and a daemon
// started here inherit.
Finding LookAtLimits(int ranks);

// Whether it is plausible, and kept by somebody. `newest_us`: when the newest run started, by what
// the store says; 0: there is none.
Finding LookAtClock(int64_t newest_us);

// The keys that a daemon started here would find, and the servers they are for, asked by it through
// the proxy in use: of the runs that go to W&B, and of the public one where there is a key for it.
// Nobody is asked where there is neither.
std::vector<Finding> LookAtServers(const std::string& state_dir,
                                   const std::vector<RunReport>& runs);

// What ends the daemon of process `pid` before its rows are delivered: the end of a Slurm job's
// step, or of its user's session. None: nothing known does.
absl::optional<Finding> LookAtSupervision(int64_t pid);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_CHECK_H_
