// The lines about the daemon on the page of `ranklog status`.

#ifndef SERVICE_CLI_STATUS_DAEMON_LINES_H_
#define SERVICE_CLI_STATUS_DAEMON_LINES_H_

#include <string>

#include "service/cli/output/terminal.h"
#include "service/cli/status/overview.h"

namespace ranklog::cli {

// Whether the daemon runs, with its version, uptime and address; if not, why it could not start.
std::string DaemonText(const Overview& overview, const Terminal& terminal);

// How long the daemon keeps runs, where its metrics are, where other daemons reach it, and what it
// cannot do.
std::string DaemonLines(const Overview& overview, const Terminal& terminal);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_STATUS_DAEMON_LINES_H_
