#include "tests/support/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/base/config.h"
#include "absl/time/clock.h"
#include "tests/support/file_content.h"

extern char** environ;

namespace ranklog::testing {
namespace {

// Sanitized programs are slower. A deadline only ends a test that hangs; it measures nothing.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr int kSlowness = 6;
#else
constexpr int kSlowness = 1;
#endif
constexpr absl::Duration kLongestPause = absl::Milliseconds(100);  // of WaitFor()

std::vector<std::string> Environment(const ChildProcess::Options& options) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (options.environment.count(name) == 0 &&
        std::find(options.unset.begin(), options.unset.end(), name) == options.unset.end()) {
      result.push_back(text);
    }
  }
  for (const auto& [name, value] : options.environment) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

void ExpectNoSanitizerReport(const std::string& output) {
  for (const char* sign : {"Sanitizer: ", ": runtime error: "}) {
    if (output.find(sign) == std::string::npos) continue;
    ADD_FAILURE() << "a sanitizer found something in a program of this test:\n" << output;
    return;
  }
}

}  // namespace

bool WaitFor(const std::function<bool()>& condition, absl::Duration timeout) {
  const absl::Time began = absl::Now();
  for (absl::Time asked = began; !condition(); asked = absl::Now()) {
    const absl::Time now = absl::Now();
    if (now - began > kSlowness * timeout) return condition();
    absl::Duration pause = std::clamp((now - began) / 8, absl::Milliseconds(5), kLongestPause);
    // A condition that starts processes may take a fifth of the time.
    pause = std::max(pause, std::min(4 * (now - asked), absl::Seconds(1)));
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(pause)));
  }
  return true;
}

ChildProcess::ChildProcess(const std::vector<std::string>& args, Options options)
    : output_(options.output) {
  if (output_.empty()) {
    std::string name = ::testing::TempDir() + "/rl-output-XXXXXX";
    close(mkstemp(name.data()));
    output_ = name;
    own_output_ = true;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output_.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (options.stdout_only) {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  } else {
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  std::vector<std::string> arguments = args;
  std::vector<std::string> environment = Environment(options);
  const int error = posix_spawnp(&pid_, args[0].c_str(), &actions, nullptr,
                                 Pointers(arguments).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_ = -1;
    exit_ = 127;
    ADD_FAILURE() << "start " << args[0] << ": " << strerror(error);
  }
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      exit_(other.exit_),
      output_(std::move(other.output_)),
      own_output_(std::exchange(other.own_output_, false)) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    Kill();
    ExpectNoSanitizerReport(Output());
  }
  if (own_output_) unlink(output_.c_str());
}

void ChildProcess::Signal(int signal) const {
  if (pid_ > 0 && !exit_.has_value()) kill(pid_, signal);
}

absl::optional<int> ChildProcess::Wait(absl::Duration timeout) {
  WaitFor(
      [this] {
        if (exit_.has_value()) return true;
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
        exit_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
        return true;
      },
      timeout);
  return exit_;
}

void ChildProcess::Kill() {
  Signal(SIGKILL);
  Wait();
}

std::string ChildProcess::Output() const { return FileContent(output_); }

Finished RunToEnd(const std::vector<std::string>& args, ChildProcess::Options options,
                  absl::Duration timeout) {
  ChildProcess child(args, std::move(options));
  absl::optional<int> code = child.Wait(timeout);
  if (!code.has_value()) {
    child.Kill();
    code = -SIGKILL;
  }
  return {*code, child.Output()};
}

}  // namespace ranklog::testing
