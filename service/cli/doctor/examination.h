// The checks of `ranklog doctor`.

#ifndef SERVICE_CLI_DOCTOR_EXAMINATION_H_
#define SERVICE_CLI_DOCTOR_EXAMINATION_H_

#include <string>
#include <vector>

#include "service/cli/doctor/finding.h"
#include "service/cli/node/globals.h"

namespace ranklog::cli {

// Checks `state_dir`, its daemon and the spools of this user, and changes nothing. Reads the whole
// store, with a progress bar on a terminal. Anything that cannot be checked is a finding. `ranks`
// is the planned number of ranks on this node. Does not check other nodes: see CheckPeer().
std::vector<Finding> RunChecks(const Globals& globals, const std::string& state_dir, int ranks);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_EXAMINATION_H_
