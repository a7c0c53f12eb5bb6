#include "service/storage/state_dirs.h"

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ranklog::storage {
namespace {

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// Another container or node has process ids of its own: here, the one in the file is free, ours, or
// another program's.
bool IsHeldHere(const std::string& dir) {
  const int64_t pid = StateLock::Holder(dir);
  std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
  std::string program;
  return pid != getpid() && std::getline(file, program) && absl::StartsWith(program, "ranklog");
}

}  // namespace

std::vector<std::string> DefaultStateDirs() {
  if (std::string dir = Variable("RANKLOG_STATE_DIR"); !dir.empty()) return {std::move(dir)};
  std::vector<std::string> dirs;
  if (const std::string dir = Variable("XDG_STATE_HOME"); !dir.empty()) {
    dirs.push_back(dir + "/ranklog");
  } else if (const std::string home = Variable("HOME"); !home.empty()) {
    dirs.push_back(home + "/.local/state/ranklog");
  }
  dirs.push_back(absl::StrCat("/var/tmp/ranklog-", geteuid()));
  return dirs;
}

absl::StatusOr<LockedDir> LockFirst(const std::vector<std::string>& dirs) {
  std::vector<std::string> skipped;
  absl::StatusCode code = absl::StatusCode::kFailedPrecondition;
  for (const std::string& dir : dirs) {
    absl::StatusOr<StateLock> lock = StateLock::Acquire(dir);
    if (lock.ok()) return LockedDir{dir, *std::move(lock), std::move(skipped)};
    const absl::Status& status = lock.status();
    code = status.code();
    if (absl::IsResourceExhausted(status) || (absl::IsAlreadyExists(status) && IsHeldHere(dir))) {
      return status;
    }
    skipped.emplace_back(status.message());
  }
  return absl::Status(code, absl::StrJoin(skipped, "; "));
}

}  // namespace ranklog::storage
