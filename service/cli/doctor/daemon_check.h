// Checks the daemon of this node: whether it answers, where it listens, and which ranks it has.

#ifndef SERVICE_CLI_DOCTOR_DAEMON_CHECK_H_
#define SERVICE_CLI_DOCTOR_DAEMON_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "service/cli/doctor/finding.h"
#include "service/cli/node/globals.h"

namespace ranklog::cli {

// The daemon that holds `dir`. Without one, the reason why the previous daemon could not start.
Finding CheckDaemon(const Globals& globals, const std::string& dir);

// A daemon that listens where ranks look for their daemon but keeps another directory, while no
// daemon runs for `dir`. It has the ranks' rows, and this command does not show them.
absl::optional<Finding> CheckOtherDaemon(const Globals& globals, const std::string& dir);

// The daemon that the user named by its address, if it does not answer; `why` is from AskDaemon().
Finding ReportNoDaemon(const std::string& address, const absl::Status& why);

// The socket of a daemon that would be started here, or of the daemon that the user named.
Finding CheckSocket(const Globals& globals);

// The libranklog versions of live ranks. An older version is not a problem.
absl::optional<Finding> ListClients(const std::string& dir);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_DAEMON_CHECK_H_
