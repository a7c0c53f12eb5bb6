// The program of `ranklog exec`, and the channels on which it prints.

#ifndef SERVICE_CLI_CONSOLE_COMMAND_H_
#define SERVICE_CLI_CONSOLE_COMMAND_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/cli/console/source.h"

namespace ranklog::cli {

struct StartedCommand {
  pid_t pid = 0;
  std::vector<Source> sources;
};

// Starts the command. It keeps our stdin, our terminal and our process group. Its stdout and stderr
// are a terminal where ours are, and pipes otherwise; one for both if ours are the same, so that the
// order of what it prints does not change. `variable` is NAME=VALUE for its environment, `mask` the
// signals that it blocks.
//   kNotFound            no such program
//   kPermissionDenied    it cannot be executed
absl::StatusOr<StartedCommand> StartCommand(const std::vector<std::string>& command,
                                            std::string variable, const sigset_t& mask);

// Gives the terminals of the sources the size of ours.
void CopyWindowSize(const std::vector<Source>& sources);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_CONSOLE_COMMAND_H_
