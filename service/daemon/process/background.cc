#include "service/daemon/process/background.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ranklog/v1/places.h"
#include "service/base/status_macros.h"
#include "service/ingest/server/listen_socket.h"

namespace ranklog::daemon {
namespace {

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  RETURN_IF_ERROR(
      ingest::PreparePrivateDirectory(std::filesystem::path(path).parent_path().string()));
  UniqueFd log(open(path.c_str(),
                    O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (!log.valid() || fstat(log.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  if (!v1::IsOwnFile(info)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a private regular file of this user; remove it"));
  }
  return log;
}

// Closes descriptors of the starter, such as a pipe on whose end a process waits.
void CloseAllBut(int one, int two, int three) {
  std::vector<int> open;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int fd = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &fd)) open.push_back(fd);
  }
  for (const int fd : open) {
    if (fd > STDERR_FILENO && fd != one && fd != two && fd != three) close(fd);
  }
}

// Reads the report of the new process: its exit code as one byte, then a text.
[[noreturn]] void ExitWithReportedStatus(int pipe, const std::string& log) {
  std::string report;
  char buffer[4096];
  for (ssize_t size = 1; size > 0 || (size < 0 && errno == EINTR);) {
    size = read(pipe, buffer, sizeof(buffer));
    if (size > 0) report.append(buffer, static_cast<size_t>(size));
  }
  if (report.empty()) report = absl::StrCat("\1", "ranklogd ended during its start; see ", log);
  const int code = report[0];
  fprintf(code == 0 ? stdout : stderr, "%s\n", report.c_str() + 1);
  exit(code);
}

}  // namespace

absl::Status Background::Enter(const std::string& log) {
  ASSIGN_OR_RETURN(const UniqueFd output, OpenLog(log));
  const UniqueFd input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (!input.valid() || pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot create a pipe to the daemon");
  }
  const int from = ends[0];
  starter_ = UniqueFd(ends[1]);
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "cannot start a process");
  if (child > 0) {
    starter_ = UniqueFd();
    ExitWithReportedStatus(from, log);
  }
  setsid();
  CloseAllBut(starter_.get(), input.get(), output.get());
  dup2(input.get(), STDIN_FILENO);
  dup2(output.get(), STDOUT_FILENO);
  dup2(output.get(), STDERR_FILENO);
  if (chdir("/") != 0) return absl::ErrnoToStatus(errno, "cannot change to the directory /");
  return absl::OkStatus();
}

void Background::Report(int exit_code, const std::string& text) {
  const UniqueFd starter = std::exchange(starter_, {});
  if (!starter.valid()) return;
  const std::string report = absl::StrCat(std::string(1, static_cast<char>(exit_code)), text);
  // If the starter has ended, the daemon continues.
  static_cast<void>(!write(starter.get(), report.data(), report.size()));
}

}  // namespace ranklog::daemon
