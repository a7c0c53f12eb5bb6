// Starts real programs as children of a test, watches and kills them, and prints their output when
// the test fails.

#ifndef TESTS_SUPPORT_CHILD_PROCESS_H_
#define TESTS_SUPPORT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace ranklog::testing {

// Returns true as soon as `condition` holds, or false after `timeout`. Polls every 5 ms, later less
// often: after a second, every 100 ms. A condition that takes long is polled less often.
bool WaitFor(const std::function<bool()>& condition, absl::Duration timeout = absl::Seconds(30));

// A child process. The destructor kills it (SIGKILL) and waits for it. If its output then contains
// a sanitizer report, the test fails, since nobody may have read its exit code.
class ChildProcess {
 public:
  struct Options {
    std::map<std::string, std::string> environment;  // added to the test's own environment
    std::vector<std::string> unset;                  // removed from the test's own environment
    std::string output;  // File to which stdout and stderr are appended; empty: a temporary file
    // Leaves out stderr, which also tells what the machine has beside the test: spools that other
    // programs left.
    bool stdout_only = false;
  };

  // Starts args[0], a path or a name in PATH. Fails the test if it cannot start.
  explicit ChildProcess(const std::vector<std::string>& args) : ChildProcess(args, Options()) {}
  ChildProcess(const std::vector<std::string>& args, Options options);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;

  // Returns the exit code, or minus the signal that ended the child; nullopt if it still runs after
  // `timeout`.
  absl::optional<int> Wait(absl::Duration timeout = absl::Seconds(60));
  // Sends SIGKILL, and waits for the end.
  void Kill();

  // Returns the output so far.
  std::string Output() const;

 private:
  pid_t pid_ = -1;
  absl::optional<int> exit_;  // set by the wait for it
  std::string output_;
  bool own_output_ = false;
};

// Runs a program to its end. Kills it after `timeout`; its code is then -SIGKILL.
struct Finished {
  int code;
  std::string output;
};
Finished RunToEnd(const std::vector<std::string>& args, ChildProcess::Options options = {},
                  absl::Duration timeout = absl::Seconds(60));

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_CHILD_PROCESS_H_
