// A program on a terminal: what a person sees of it.

#ifndef TESTS_SUPPORT_TERMINAL_H_
#define TESTS_SUPPORT_TERMINAL_H_

#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace ranklog::testing {

// Runs a program to its end as RunToEnd() does, on a terminal of 80 columns where `typed` was typed
// before. The output is all that came there, control characters and the echo included.
Finished RunOnTerminal(const std::vector<std::string>& args, const ChildProcess::Options& options,
                       const std::string& typed = "", absl::Duration timeout = absl::Seconds(60));

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_TERMINAL_H_
