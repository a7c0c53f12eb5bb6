#include "service/cli/console/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace ranklog::cli {
namespace {

// The default of 64 KiB is soon full if this process gets no processor for a while.
constexpr int kPipeBytes = 1 << 20;

struct Channel {
  UniqueFd reads;
  UniqueFd writes;
};

absl::Status Error(const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", what));
}

// A terminal that passes on what is written to it unchanged, of the size of the terminal `like`.
absl::StatusOr<Channel> MakeTerminal(int like) {
  Channel channel;
  channel.reads = UniqueFd(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[128];
  if (!channel.reads.valid() || grantpt(channel.reads.get()) != 0 ||
      unlockpt(channel.reads.get()) != 0 ||
      ptsname_r(channel.reads.get(), name, sizeof name) != 0) {
    return Error("a terminal");
  }
  channel.writes = UniqueFd(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!channel.writes.valid()) return Error("a terminal");
  termios mode{};
  if (tcgetattr(channel.writes.get(), &mode) == 0) {
    mode.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL);
    tcsetattr(channel.writes.get(), TCSANOW, &mode);
  }
  winsize size{};
  if (ioctl(like, TIOCGWINSZ, &size) == 0) ioctl(channel.writes.get(), TIOCSWINSZ, &size);
  return channel;
}

absl::StatusOr<Channel> MakeChannel(int like) {
  if (isatty(like) == 1) return MakeTerminal(like);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error("a pipe");
  Channel channel;
  channel.reads = UniqueFd(ends[0]);
  channel.writes = UniqueFd(ends[1]);
  fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);  // may fail: then it is smaller
  return channel;
}

bool AreSame(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

absl::StatusOr<StartedCommand> StartCommand(const std::vector<std::string>& command,
                                            std::string variable, const sigset_t& mask) {
  StartedCommand started;
  std::vector<UniqueFd> writes;
  for (const int to : {STDOUT_FILENO, STDERR_FILENO}) {
    if (to == STDERR_FILENO && AreSame(STDOUT_FILENO, STDERR_FILENO)) break;
    ASSIGN_OR_RETURN(Channel channel, MakeChannel(to));
    fcntl(channel.reads.get(), F_SETFL, fcntl(channel.reads.get(), F_GETFL) | O_NONBLOCK);
    started.sources.push_back({std::move(channel.reads), to});
    writes.push_back(std::move(channel.writes));
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
