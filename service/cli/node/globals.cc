#include "service/cli/node/globals.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/printable.h"
#include "service/base/status_macros.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/unread_spools.h"
#include "service/storage/state_dirs.h"
#include "service/storage/store_file.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {

absl::StatusOr<std::string> Globals::StateDir() const {
  if (!state_dir.empty()) return state_dir;
  if (!address.empty()) {
    ASSIGN_OR_RETURN(const DaemonStatus daemon, AskDaemon(address));
    return daemon.state_dir;
  }
  const std::vector<std::string> dirs = storage::DefaultStateDirs();
  if (const char* named = std::getenv("RANKLOG_STATE_DIR"); named == nullptr || *named == 0) {
    for (const std::string& usual : UsualAddresses()) {
      if (const auto daemon = AskDaemon(usual); daemon.ok()) return daemon->state_dir;
    }
  }
  const auto has_store = [](const std::string& dir) {
    return access(absl::StrCat(dir, "/", storage::kStoreFile).c_str(), F_OK) == 0;
  };
  const auto found = std::find_if(dirs.begin(), dirs.end(), has_store);
  return found == dirs.end() ? dirs.front() : *found;
}

absl::StatusOr<std::unique_ptr<storage::StoreReader>> Globals::OpenStore() const {
  ASSIGN_OR_RETURN(const std::string dir, StateDir());
  if (access(absl::StrCat(dir, "/", storage::kStoreFile).c_str(), R_OK) != 0 && errno == EACCES) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot read the store in ", dir,
                     ": Permission denied; choose a directory of your own with --state-dir (or "
                     "$RANKLOG_STATE_DIR)"));
  }
  auto reader = storage::StoreReader::Open(dir);
  if (absl::IsNotFound(reader.status())) {
    const auto log = FindDaemonLog(address);
    std::string why;
    if (log.has_value() && !log->last_words.empty()) {
      why = absl::StrCat("; the daemon could not start: ", Printable(log->last_words), " (",
                         log->path, ")");
    }
    if (const auto left = FindUnreadSpools(*this, dir); !left.empty()) {
      absl::StrAppend(&why, "; ", UnreadSpoolsText(left), ": ", HowToTake(*this, dir, left));
    }
    return absl::NotFoundError(
        absl::StrCat("there is no store in ", dir,
                     "; choose another directory with --state-dir (or "
                     "$RANKLOG_STATE_DIR), or create one here: ranklogd --state-dir ",
                     dir, why));
  }
  return reader;
}

}  // namespace ranklog::cli
