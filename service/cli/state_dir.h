#ifndef SERVICE_CLI_STATE_DIR_H_
#define SERVICE_CLI_STATE_DIR_H_

#include <string>

#include "absl/status/statusor.h"

namespace ranklog::cli {

// Where the store lies if no flag says so: $RANKLOG_STATE_DIR, else $XDG_STATE_HOME/ranklog, else
// ~/.local/state/ranklog.
//   kFailedPrecondition  none of the three variables is set
absl::StatusOr<std::string> DefaultStateDir();

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_STATE_DIR_H_
