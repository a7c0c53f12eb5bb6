// The real torchrun, as the tests call it.

#ifndef TESTS_INTEROP_TORCHRUN_H_
#define TESTS_INTEROP_TORCHRUN_H_

#include <string>
#include <vector>

#include "tests/support/dead_port.h"

namespace ranklog::testing {

// A command that runs programs other than Python's, once `arguments` and a program are appended.
// Debian's torchrun 1.13 under Python 3.11 fails unless --redirects and --tee name one stream.
// An agent looks at its ranks every half second instead of every five.
inline std::vector<std::string> Torchrun(const std::string& log_dir,
                                         const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      "torchrun",    "--redirects",        "1",  "--tee", "1", "--log_dir", log_dir,
      "--no_python", "--monitor_interval", "0.5"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// What `torchrun --standalone` stands for, with a free port: torchrun 1.13 always takes 29400, so
// that two such jobs on one machine meet at one store, which goes with the first of them.
inline std::vector<std::string> Standalone() {
  const std::string port = std::to_string(DeadPort(DeadPort::kRefuses).number());
  return {"--rdzv_backend",    "c10d",      "--rdzv_endpoint",
          "127.0.0.1:" + port, "--rdzv_id", "standalone-" + port};
}

}  // namespace ranklog::testing

#endif  // TESTS_INTEROP_TORCHRUN_H_
