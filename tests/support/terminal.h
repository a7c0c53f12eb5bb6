// Runs a program on a terminal, and returns what a person would see.

#ifndef TESTS_SUPPORT_TERMINAL_H_
#define TESTS_SUPPORT_TERMINAL_H_

#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace ranklog::testing {

// Runs a program to its end like RunToEnd(), on a terminal of 80 columns. `typed` is typed before
// the start. The output includes control characters and the echo.
Finished RunOnTerminal(const std::vector<std::string>& args, const ChildProcess::Options& options,
                       const std::string& typed = "", absl::Duration timeout = absl::Seconds(60));

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_TERMINAL_H_
