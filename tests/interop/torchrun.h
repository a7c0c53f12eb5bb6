// Command lines of the real torchrun.

#ifndef TESTS_INTEROP_TORCHRUN_H_
#define TESTS_INTEROP_TORCHRUN_H_

#include <string>
#include <vector>

#include "tests/support/dead_port.h"

namespace ranklog::testing {

// The start of a command line that runs a program that is not Python. Append the program. Debian's
// torchrun 1.13 under Python 3.11 fails unless --redirects and --tee name one stream. The agent
// checks its ranks every half second instead of every five seconds.
inline std::vector<std::string> Torchrun(const std::string& log_dir,
                                         const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      "torchrun",    "--redirects",        "1",  "--tee", "1", "--log_dir", log_dir,
      "--no_python", "--monitor_interval", "0.5"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// The arguments that `torchrun --standalone` stands for, but with a free port. torchrun 1.13 always
// uses port 29400: two such jobs on one machine would share a rendezvous store, which ends with the
// first of them.
inline std::vector<std::string> Standalone() {
  const std::string port = std::to_string(DeadPort(DeadPort::kRefuses).number());
  return {"--rdzv_backend",    "c10d",      "--rdzv_endpoint",
          "127.0.0.1:" + port, "--rdzv_id", "standalone-" + port};
}

}  // namespace ranklog::testing

#endif  // TESTS_INTEROP_TORCHRUN_H_
