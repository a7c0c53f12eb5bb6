// Checks the state directory: its owner and mode, the directories that were skipped for it, and the
// free space on its disk.

#ifndef SERVICE_CLI_DOCTOR_STATE_DIR_CHECK_H_
#define SERVICE_CLI_DOCTOR_STATE_DIR_CHECK_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "service/cli/doctor/finding.h"
#include "service/cli/node/daemon_status.h"

namespace ranklog::cli {

// Whether the directory `dir` exists, is local, and is private to this user.
Finding CheckStateDir(const std::string& dir);

// The candidates before `dir`, and why the store is in none of them.
std::vector<Finding> ListSkippedDirs(const std::string& dir);

// The free space for the store in `dir`. `daemon`, if it runs, knows how fast the store grows.
Finding CheckFreeSpace(const std::string& dir, const absl::optional<DaemonStatus>& daemon);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_STATE_DIR_CHECK_H_
