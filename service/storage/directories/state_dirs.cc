#include "service/storage/directories/state_dirs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/storage/directories/file_system.h"

namespace ranklog::storage {
namespace {

constexpr char kCommand[] = "ranklog";
// Less than the 10 s after which a rank starts another daemon.
constexpr absl::Duration kCommandWait = absl::Seconds(8);
constexpr absl::Duration kCommandPoll = absl::Milliseconds(20);

// The name of the program that holds the directory, if it is a program of ours on this node; else
// empty. Another container or node has its own process ids: here, the pid in the file is unused,
// ours, or another program's.
std::string HolderHere(const std::string& dir) {
  const int64_t pid = StateLock::Holder(dir);
  std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
  std::string program;
  std::getline(file, program);
  return pid != getpid() && absl::StartsWith(program, "ranklog") ? program : "";
}

bool IsHeldHere(const std::string& dir) { return !HolderHere(dir).empty(); }

// A command releases the directory soon.
absl::StatusOr<StateLock> AcquireFromCommand(const std::string& dir) {
  // Kept until we hold the directory, so that the command does not take it again.
  absl::optional<StateRequest> wish;
  if (HolderHere(dir) == kCommand) wish.emplace(dir);
  const absl::Time deadline = SteadyNow() + kCommandWait;
  while (wish && StateLock::Holder(dir) != 0 && SteadyNow() < deadline) {
    absl::SleepFor(kCommandPoll);
  }
  return StateLock::Acquire(dir);
}

absl::Status HeldElsewhere(const std::string& dir) {
  return absl::AlreadyExistsError(absl::StrCat(
      dir, " is in use by a daemon of another container or node (there its process ",
      StateLock::Holder(dir), "); stop it there, or choose another directory with --state-dir"));
}

}  // namespace

std::vector<std::string> DefaultStateDirs() {
  if (std::string dir = EnvironmentVariable("RANKLOG_STATE_DIR"); !dir.empty())
    return {std::move(dir)};
  std::vector<std::string> dirs;
  std::string made = absl::StrCat("/var/lib/ranklog/", geteuid());
  struct stat info;  // follows a link: only root can make one there
  if (stat(made.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid()) {
    dirs.push_back(std::move(made));
  }
  if (const std::string dir = EnvironmentVariable("XDG_STATE_HOME"); !dir.empty()) {
    dirs.push_back(dir + "/ranklog");
  } else if (const std::string home = EnvironmentVariable("HOME"); !home.empty()) {
    dirs.push_back(home + "/.local/state/ranklog");
  }
  dirs.push_back(absl::StrCat("/var/tmp/ranklog-", geteuid()));
  return dirs;
}

absl::Status CheckUsable(const std::string& dir) {
  std::error_code error;
  std::filesystem::path missing = std::filesystem::absolute(dir, error);
  if (std::filesystem::exists(missing, error)) {
    RETURN_IF_ERROR(MakeDirectory(dir));  // only checks an existing one
    RETURN_IF_ERROR(CheckLocal(dir));
    if (access(dir.c_str(), W_OK | X_OK) != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot write to ", dir, ": ", strerror(errno)));
    }
    const int64_t pid = StateLock::Holder(dir);
    if (pid == 0) return absl::OkStatus();
    if (!IsHeldHere(dir)) return HeldElsewhere(dir);
    return absl::AlreadyExistsError(absl::StrCat(dir, " is in use by process ", pid));
  }
  while (missing.has_relative_path() && !std::filesystem::exists(missing.parent_path(), error)) {
    missing = missing.parent_path();
  }
  std::string probe = (missing.parent_path() / ".ranklog-XXXXXX").string();
  if (mkdtemp(probe.data()) == nullptr) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot create ", missing.string(), ": ", strerror(errno)));
  }
  absl::Status local = CheckLocal(probe);
  rmdir(probe.c_str());
  return local;
}

absl::StatusOr<LockedDir> LockFirst(const std::vector<std::string>& dirs) {
  std::vector<std::string> skipped;
  absl::StatusCode code = absl::StatusCode::kFailedPrecondition;
  for (const std::string& dir : dirs) {
    absl::StatusOr<StateLock> lock = AcquireFromCommand(dir);
    if (lock.ok()) return LockedDir{dir, *std::move(lock), std::move(skipped)};
    const absl::Status& status = lock.status();
    code = status.code();
    if (absl::IsResourceExhausted(status) || (absl::IsAlreadyExists(status) && IsHeldHere(dir))) {
      return status;
    }
    skipped.emplace_back(absl::IsAlreadyExists(status) && StateLock::Holder(dir) != 0
                             ? HeldElsewhere(dir).message()
                             : status.message());
  }
  return absl::Status(code, absl::StrJoin(skipped, "; "));
}

}  // namespace ranklog::storage
