// Checks what the daemons of several nodes need: the key that they share, and the port.

#ifndef SERVICE_CLI_DOCTOR_PEER_CHECK_H_
#define SERVICE_CLI_DOCTOR_PEER_CHECK_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "service/cli/doctor/finding.h"
#include "service/cli/node/daemon_status.h"

namespace ranklog::cli {

// The key file of this node, its end, and whether `daemon` uses it and listens. Empty if the user
// has no key: then the nodes of a job are not joined, which is no problem.
std::vector<Finding> CheckPeerSetup(const absl::optional<DaemonStatus>& daemon);

// Connects to the daemon of another node, HOST or HOST:PORT, with the key of `daemon`, which runs on
// this node, else with the key of the next one.
Finding CheckPeer(const std::string& address, const absl::optional<DaemonStatus>& daemon);

// An OptionCheck for that address.
std::string CheckPeerAddress(const std::string& text);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_PEER_CHECK_H_
