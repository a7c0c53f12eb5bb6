// This node's settings for connections with the daemons of other nodes, as a daemon that is started
// here would have them.

#ifndef SERVICE_CLI_NODE_PEER_SETUP_H_
#define SERVICE_CLI_NODE_PEER_SETUP_H_

#include <string>

#include "absl/types/optional.h"
#include "service/cli/node/daemon_status.h"

namespace ranklog::cli {

// The key file: $RANKLOG_PEER_KEY, else the default one. Empty if it is turned off, or if there is no
// home directory.
std::string PeerKeyFile();

// The port: that of $RANKLOG_PEER_LISTEN, else the default one.
int PeerPort();

// Whether the daemon of this node, if there is one, has the key with this fingerprint, as a clause:
// "the daemon of this node uses it, and listens at [::]:21000". `problem` tells whether the user
// must do something.
struct KeyUse {
  bool problem = false;
  std::string text;
};
KeyUse UseOfKey(const absl::optional<DaemonStatus>& daemon, const std::string& fingerprint);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_PEER_SETUP_H_
