#include "service/pipeline/job_end/program_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"

namespace ranklog::pipeline {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr int kLookMs = 100;

// The result ends with a null pointer.
std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the program in its own process group, with none of our descriptors and default signal
// handling. Returns an errno.
int Start(const std::vector<std::string>& args, const std::vector<std::string>& environment,
          int output, pid_t* pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(pid, args[0].c_str(), &files, &attributes, Pointers(args).data(),
                                 Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

absl::StatusOr<std::string> ReadAll(int fd, absl::Duration timeout,
                                    const std::function<bool()>& give_up) {
  const absl::Time deadline = SteadyNow() + timeout;
  std::string text;
  char buffer[4096];
  while (SteadyNow() < deadline && !give_up()) {
    pollfd readable{fd, POLLIN, 0};
    if (poll(&readable, 1, kLookMs) <= 0) continue;
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMostBytes) return absl::ResourceExhaustedError("its output is too large");
  }
  return absl::DeadlineExceededError("it did not end in time");
}

}  // namespace

absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& args,
                                     const std::vector<std::string>& variables,
                                     absl::Duration timeout, const std::function<bool()>& give_up) {
  std::vector<std::string> names = variables;
  names.insert(names.end(), {"PATH", "HOME", "LANG"});
  std::vector<std::string> environment;
  for (const std::string& name : names) {
    if (const char* value = getenv(name.c_str())) {
      environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot create a pipe: ", strerror(errno)));
  }
  const absl::Cleanup close_end = [&] { close(ends[0]); };
  pid_t pid = 0;
  const int error = Start(args, environment, ends[1], &pid);
  close(ends[1]);
  if (error == EAGAIN || error == ENOMEM) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start ", args[0], ": ", strerror(error)));
  }
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat("cannot start ", args[0], ": ", strerror(error)));
  }
  absl::StatusOr<std::string> text = ReadAll(ends[0], timeout, give_up);
  kill(-pid, SIGKILL);  // kills its children too
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
  return text;
}

}  // namespace ranklog::pipeline
