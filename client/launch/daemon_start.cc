#include "client/launch/daemon_start.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/settings/destination_variables.h"
#include "ranklog/v1/places.h"

namespace ranklog::internal {
namespace {

constexpr char kProgram[] = "ranklogd";
constexpr size_t kStackBytes = 64 << 10;
// Without close_range(), descriptors below this number are closed one by one, which takes some ten
// milliseconds. Higher ones are rare, and most of them are closed by execve().
constexpr unsigned kMostDescriptors = 1 << 16;

// `ranklog status` reports it.
constexpr char kStartedByRank[] = "RANKLOG_STARTED_BY=rank";
// A variable, not a flag, because an earlier ranklogd would refuse to start with an unknown flag.
constexpr char kFormerStateDir[] = "RANKLOG_FORMER_STATE_DIR=";
// The daemon must not inherit what a service manager told this process.
constexpr const char* kNotInherited[] = {
    "RANKLOG_STARTED_BY=", kFormerStateDir, "NOTIFY_SOCKET=", "LISTEN_PID=", "LISTEN_FDS=",
    // The libraries of the training's environment, such as conda's, are not for the daemon.
    "LD_LIBRARY_PATH=", "LD_PRELOAD=", "LD_AUDIT="};

// Prepared before the clone() calls, because nothing may allocate after them.
struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const int* descriptors;  // become 0, 1, ...; each is above kLowest
  unsigned count;
  char* stack_top;  // for the second child
  int error = 0;    // errno of the call that failed
};
constexpr int kLowest = 16;  // above the numbers that the program gets

// The three functions below run in children that share our memory while this thread is suspended,
// as with vfork(). The page tables of a trainer are not copied, and its fork handlers do not run.
// They make only plain system calls.

// Closes all descriptors from `from` on. The child has its own descriptor table.
__attribute__((no_sanitize("address", "undefined", "thread"))) void CloseFrom(unsigned from) {
  if (syscall(SYS_close_range, from, ~0U, 0U) == 0) return;
  // A kernel before 5.9, or a container that refuses system calls that it does not know.
  for (unsigned fd = from; fd < kMostDescriptors; ++fd) syscall(SYS_close, fd);
}

__attribute__((no_sanitize("address", "undefined", "thread"))) int RunProgram(void* argument) {
  auto* const launch = static_cast<Launch*>(argument);
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
  } action = {};  // SIG_DFL in the kernel's layout
  for (int signal = 1; signal < 65; ++signal) {
    syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof action.mask);
  }
  const unsigned long no_signals = 0;
  syscall(SYS_setsid);
  for (unsigned i = 0; i < launch->count; ++i) {
    syscall(SYS_dup3, launch->descriptors[i], i, 0);
  }
  CloseFrom(launch->count);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, nullptr, sizeof no_signals);
  syscall(SYS_execve, launch->program, launch->arguments, launch->environment);
  launch->error = errno;
  syscall(SYS_exit, 127);
  return 127;
}

__attribute__((no_sanitize("address", "undefined", "thread"))) int RunParent(void* argument) {
  auto* const launch = static_cast<Launch*>(argument);
  if (clone(RunProgram, launch->stack_top, CLONE_VM | CLONE_VFORK, launch) < 0) {
    launch->error = errno;
  }
  syscall(SYS_exit, 0);
  return 0;
}

std::string LogPath(const SocketLocation& place) {
  return place.dir.path + "/" + v1::kDaemonLogFile;
}

// The end of one of our files; empty if it cannot be read.
std::string Tail(const std::string& path) {
  constexpr off_t kTail = 4096;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return "";
  std::string text(kTail, '\0');
  const off_t end = lseek(fd, 0, SEEK_END);
  const ssize_t size =
      end < 0 ? 0 : pread(fd, text.data(), text.size(), std::max(end - kTail, off_t{0}));
  close(fd);
  text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

std::string Directory(const std::string& path) { return path.substr(0, path.rfind('/')); }

// The pointers, followed by a null pointer.
std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& text : *strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Secrets come with the Hello instead: a process's environment can be read in /proc, its children
// inherit it, and the daemon would use it for other jobs.
bool IsSecret(const Settings& settings, const std::string& variable) {
  const auto of = [&](const std::string& destination) { return IsSecretOf(destination, variable); };
  return settings.credentials.count(variable) != 0 ||
         std::any_of(std::begin(kUsualDestinations), std::end(kUsualDestinations), of) ||
         std::any_of(settings.destinations.begin(), settings.destinations.end(), of);
}

void AddPath(std::vector<std::string>* directories) {
  const char* path = getenv("PATH");
  if (path == nullptr) return;
  for (absl::string_view directory : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    directories->emplace_back(directory.data(), directory.size());
  }
}

}  // namespace

std::vector<std::string> ProgramEnvironment(const Settings& settings) {
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const absl::string_view text(*variable);
    const bool inherited =
        !IsSecret(settings, std::string(text.substr(0, text.find('=')))) &&
        std::none_of(std::begin(kNotInherited), std::end(kNotInherited),
                     [&](const char* prefix) { return absl::StartsWith(text, prefix); });
    if (inherited) variables.emplace_back(*variable);
  }
  return variables;
}

absl::StatusOr<std::unique_ptr<StartLock>> StartLock::Take(const SocketLocation& place) {
  const std::string path = absl::StrCat(place.dir.path, "/", v1::kStartLockFile);
  const absl::StatusOr<int> fd = OpenOwnFile(path, O_RDWR);
  if (!fd.ok()) return fd.status();
  if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
    close(*fd);
    return absl::UnavailableError("another process is starting the daemon");
  }
  return std::unique_ptr<StartLock>(new StartLock(*fd));
}

StartLock::~StartLock() {
  flock(fd_, LOCK_UN);  // a forked child may hold the descriptor too
  close(fd_);
}

std::string FindDaemon(const std::string& daemon) {
  return daemon.empty() ? FindProgram(kProgram) : daemon;
}

std::string FindProgram(const std::string& name, const std::string& beside) {
  std::vector<std::string> directories;
  if (beside.find('/') != std::string::npos) directories.push_back(Directory(beside));
  char program[4096];
  const ssize_t size = readlink("/proc/self/exe", program, sizeof program);
  if (size > 0) directories.push_back(Directory(std::string(program, static_cast<size_t>(size))));
  Dl_info library;
  if (dladdr(reinterpret_cast<const void*>(&FindDaemon), &library) != 0 && library.dli_fname) {
    directories.push_back(Directory(library.dli_fname));
    directories.push_back(Directory(library.dli_fname) + "/../bin");
  }
  AddPath(&directories);
  for (const std::string& directory : directories) {
    std::string candidate = directory + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::string StartFailure(const SocketLocation& place) {
  const std::string path = LogPath(place);
  const std::vector<std::string> lines = absl::StrSplit(Tail(path), '\n', absl::SkipWhitespace());
  std::string words;
  // A line of the log begins with its time, or with a brace (--log-format json). Other text at the
  // end comes from a daemon that failed before it could log: wrong usage, or a missing library.
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (absl::ascii_isdigit(static_cast<unsigned char>(line->front())) || line->front() == '{') {
      constexpr char kCannot[] = "cannot start: ";
      const size_t at = line->find(kCannot);
      if (words.empty() && at != std::string::npos) words = line->substr(at + strlen(kCannot));
      if (line->front() == '{') words = words.substr(0, words.rfind("\"}"));
      break;
    }
    words = *line;
  }
  return words.empty() ? words : absl::StrCat(words, " (", path, ")");
}

absl::Status StartDaemon(const std::string& program, const SocketLocation& place,
                         const Settings& settings, const std::string& former_state_dir) {
  std::vector<std::string> arguments = {program, "--listen", "unix:" + place.path};
  if (!settings.state_dir.empty()) {
    arguments.insert(arguments.end(), {"--state-dir", settings.state_dir});
  }
  if (!settings.spool_dir.empty()) {
    arguments.insert(arguments.end(), {"--spool-dir", settings.spool_dir});
  }
  std::vector<std::string> variables = ProgramEnvironment(settings);
  variables.push_back(kStartedByRank);
  if (!former_state_dir.empty()) variables.push_back(kFormerStateDir + former_state_dir);
  const std::string log = LogPath(place);
  const int input = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int output = OpenOwnFile(log, O_WRONLY | O_APPEND).value_or(input);
  const absl::Status status =
      StartProgram(std::move(arguments), std::move(variables), {input, output, output});
  if (output != input && output >= 0) close(output);
  if (input >= 0) close(input);
  return status;
}

absl::Status StartProgram(std::vector<std::string> arguments, std::vector<std::string> variables,
                          const std::vector<int>& descriptors) {
  const std::vector<char*> argument_pointers = Pointers(&arguments);
  const std::vector<char*> variable_pointers = Pointers(&variables);
  std::vector<int> high;
  for (const int fd : descriptors) high.push_back(fcntl(fd, F_DUPFD_CLOEXEC, kLowest));
  std::vector<char> stacks(2 * kStackBytes);
  const auto top = [&](size_t bytes) {
    return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(stacks.data() + bytes) &
                                   ~uintptr_t{15});
  };
  Launch launch = {
      arguments[0].c_str(), argument_pointers.data(),           variable_pointers.data(),
      high.data(),          static_cast<unsigned>(high.size()), top(kStackBytes)};
  // Exit signal 0: no SIGCHLD, and a trainer that waits for any child does not see this one.
  const pid_t child = clone(RunParent, top(2 * kStackBytes), CLONE_VM | CLONE_VFORK, &launch);
  if (child < 0) launch.error = errno;
  if (child > 0) waitpid(child, nullptr, __WCLONE);
  for (const int fd : high) {
    if (fd >= 0) close(fd);
  }
  if (launch.error == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot start ", arguments[0], ": ", strerror(launch.error)));
}

}  // namespace ranklog::internal
