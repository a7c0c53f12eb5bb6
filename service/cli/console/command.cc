#include "service/cli/console/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/output_channel.h"
#include "service/base/unique_fd.h"

namespace ranklog::cli {
absl::StatusOr<StartedCommand> StartCommand(const std::vector<std::string>& command,
                                            std::string variable, const sigset_t& mask) {
  StartedCommand started;
  std::vector<UniqueFd> writes;
  for (const int to : {STDOUT_FILENO, STDERR_FILENO}) {
    if (to == STDERR_FILENO && v1::AreSameFile(STDOUT_FILENO, STDERR_FILENO)) break;
    v1::OutputChannel channel;
    if (!v1::MakeOutputChannel(to, &channel)) {
      return absl::ErrnoToStatus(errno, "cannot make a pipe or a terminal");
    }
    fcntl(channel.reads, F_SETFL, fcntl(channel.reads, F_GETFL) | O_NONBLOCK);
    started.sources.push_back({UniqueFd(channel.reads), to});
    writes.emplace_back(channel.writes);
  }

  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  const std::string name = variable.substr(0, variable.find('=') + 1);
  for (char** each = environ; *each != nullptr; ++each) {
    if (strncmp(*each, name.c_str(), name.size()) != 0) variables.push_back(*each);
  }
  variables.push_back(variable.data());
  variables.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, writes.front().get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, writes.back().get(), STDERR_FILENO);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = posix_spawnp(&started.pid, arguments[0], &files, &attributes, arguments.data(),
                                 variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start '", command.front(), "'"));
  }
  return started;
}

void CopyWindowSize(const std::vector<Source>& sources) {
  for (const Source& source : sources) {
    winsize size{};
    if (ioctl(source.to, TIOCGWINSZ, &size) == 0) ioctl(source.from.get(), TIOCSWINSZ, &size);
  }
}

}  // namespace ranklog::cli
