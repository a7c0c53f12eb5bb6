// Real programs as children of a test: started, watched, killed, and their output shown when the
// test fails.

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

// True as soon as `condition` holds; false if it does not within `timeout`. Looks every few
// milliseconds.
bool WaitFor(const std::function<bool()>& condition, absl::Duration timeout = absl::Seconds(30));

// A child process. Killed (SIGKILL) and waited for when this object goes; a sanitizer's report in
// what it wrote then fails the test, as its exit code may have told nobody.
class ChildProcess {
 public:
  struct Options {
    std::map<std::string, std::string> environment;  // set beside the test's own
    std::vector<std::string> unset;                  // removed from the test's own
    std::string output;  // file for stdout and stderr together, appended to; empty: a temporary one
  };

  // Starts args[0], a path or a name in PATH. Fails the test if that cannot be.
  explicit ChildProcess(const std::vector<std::string>& args) : ChildProcess(args, Options()) {}
  ChildProcess(const std::vector<std::string>& args, Options options);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;

  // The exit code, or minus the signal that ended it; nullopt if it is still running after
  // `timeout`.
  absl::optional<int> Wait(absl::Duration timeout = absl::Seconds(60));
  // SIGKILL, and waits.
  void Kill();

  // What it has written so far.
  std::string Output() const;

 private:
  pid_t pid_ = -1;
  absl::optional<int> exit_;  // once it was waited for
  std::string output_;
  bool own_output_ = false;
};

// Runs a program to its end. A program that outlives `timeout` is killed and its code is -SIGKILL.
struct Finished {
  int code;
  std::string output;
};
Finished RunToEnd(const std::vector<std::string>& args, ChildProcess::Options options = {},
                  absl::Duration timeout = absl::Seconds(60));

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_CHILD_PROCESS_H_
