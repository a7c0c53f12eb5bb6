// The defaults of the settings with which daemons of several nodes find and trust each other. For
// the daemon and the command line.

#ifndef SERVICE_BASE_PEER_DEFAULTS_H_
#define SERVICE_BASE_PEER_DEFAULTS_H_

#include <string>

namespace ranklog {

// 20000 + uid mod 10000: the daemons of several users of a node do not collide, and a user's daemons
// have the same port on all nodes.
int DefaultPeerPort();

// $XDG_CONFIG_HOME/ranklog/peer.key, else ~/.config/ranklog/peer.key; empty if neither variable is
// set. Not thread-safe, because it reads the environment.
std::string DefaultPeerKeyFile();

}  // namespace ranklog

#endif  // SERVICE_BASE_PEER_DEFAULTS_H_
