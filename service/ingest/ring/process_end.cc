#include "service/ingest/ring/process_end.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ranklog::ingest {
namespace {

// As in linux/pidfd.h since Linux 6.13. Debian 12 has the headers of 6.1.
struct PidfdInfo {
  uint64_t mask = 0;
  uint64_t cgroup = 0;
  uint32_t ids[11] = {};
  int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64, "PIDFD_INFO_SIZE_VER0");
constexpr uint64_t kPidfdInfoExit = 1 << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

// Returns the bytes that can be read. Reading the file of a process that is reaped meanwhile fails,
// and the stream buffer throws. getline() catches that exception; iterators of the buffer do not.
std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');
  return text;
}

// Works after the process is reaped.
absl::optional<int> AskPidfd(int pidfd) {
  PidfdInfo info;
  info.mask = kPidfdInfoExit;
  if (ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) {
    return absl::nullopt;
  }
  return info.exit_code;
}

// Works until the process is reaped.
absl::optional<int> AskProc(int pidfd, pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  // Check that the pid still belongs to this process: if it was reaped, another process may have
  // the number.
  if (syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) != 0) return absl::nullopt;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return absl::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipWhitespace());
  // proc(5) counts from 1; the first two fields are cut off.
  constexpr size_t kState = 3 - 3, kExitCode = 52 - 3;
  int status = 0;
  if (fields.size() <= kExitCode || fields[kState] != "Z") return absl::nullopt;
  std::string code = fields[kExitCode];
  absl::StripTrailingAsciiWhitespace(&code);
  return absl::SimpleAtoi(code, &status) ? absl::optional<int>(status) : absl::nullopt;
}

}  // namespace

absl::optional<int> WaitStatusOf(int pidfd, pid_t pid) {
  absl::optional<int> status = AskPidfd(pidfd);
  if (!status) status = AskProc(pidfd, pid);
  return status ? status : AskPidfd(pidfd);  // reaped between the two calls
}

std::string DescribeWaitStatus(int status) {
  if (WIFEXITED(status)) return absl::StrCat("exited with code ", WEXITSTATUS(status));
  return absl::StrCat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                      ")");
}

OomKills::OomKills(pid_t pid) {
  const std::string path = FileOf(ReadFile(absl::StrCat("/proc/", pid, "/cgroup")));
  if (path.empty()) return;
  file_ = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  before_ = Read();
}

int64_t OomKills::count() const {
  const int64_t now = Read();
  return now > before_ ? now - before_ : 0;
}

int64_t OomKills::Read() const {
  char text[4096];
  const ssize_t size = file_.valid() ? pread(file_.get(), text, sizeof text, 0) : 0;
  return size > 0 ? Parse(std::string(text, static_cast<size_t>(size))) : 0;
}

int64_t OomKills::Parse(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t count = 0;
    if (absl::ConsumePrefix(&line, "oom_kill ") && absl::SimpleAtoi(line, &count)) return count;
  }
  return 0;
}

std::string OomKills::FileOf(const std::string& text) {
  std::string unified;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0") {
      unified = absl::StrCat("/sys/fs/cgroup", parts[2], "/memory.events");
    } else if (absl::StrContains(absl::StrCat(",", parts[1], ","), ",memory,")) {
      return absl::StrCat("/sys/fs/cgroup/memory", parts[2], "/memory.oom_control");
    }
  }
  return unified;
}

}  // namespace ranklog::ingest
