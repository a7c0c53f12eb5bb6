// Finds the node of rank 0, whose daemon joins the statistics of a job's nodes.

#ifndef CLIENT_LAUNCH_HOME_H_
#define CLIENT_LAUNCH_HOME_H_

#include <string>
#include <string_view>

#include "ranklog/settings.h"

namespace ranklog::internal {

// HOST or HOST:PORT of the daemon of rank 0's node, as this node sees it. Empty if it is unknown,
// or if the launcher says that all ranks are on one node. launchers.md has the rules.
std::string FindHome(const Settings& resolved);

// The first host of a list of Slurm's: node01 for "node[01-04,07],gpu1". Empty if the list cannot
// be read.
std::string FirstHost(std::string_view list);

}  // namespace ranklog::internal

#endif  // CLIENT_LAUNCH_HOME_H_
