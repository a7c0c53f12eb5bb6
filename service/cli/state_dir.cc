#include "service/cli/state_dir.h"

#include <cstdlib>

namespace ranklog::cli {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<std::string> DefaultStateDir() {
  if (std::string dir = Variable("RANKLOG_STATE_DIR"); !dir.empty()) return dir;
  if (const std::string dir = Variable("XDG_STATE_HOME"); !dir.empty()) return dir + "/ranklog";
  if (const std::string dir = Variable("HOME"); !dir.empty()) {
    return dir + "/.local/state/ranklog";
  }
  return absl::FailedPreconditionError(
      "cannot tell where the store is: HOME is not set; name the directory with --state-dir");
}

}  // namespace ranklog::cli
