#include "service/cli/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/cli/daemon_status.h"
#include "service/cli/select_run.h"
#include "service/cli/state_dir.h"
#include "service/model/run.h"
#include "service/storage/store.h"

namespace ranklog::cli {

absl::StatusOr<std::string> Globals::StateDir() const {
  if (!state_dir.empty()) return state_dir;
  if (address.empty()) {
    // Whoever names a daemon for the ranks, and no directory, means that daemon's.
    const char* dir = std::getenv("RANKLOG_STATE_DIR");
    const char* named = std::getenv("RANKLOG_ADDRESS");
    if ((dir == nullptr || *dir == 0) && named != nullptr && *named != 0) {
      if (const auto daemon = AskDaemon(named); daemon.ok()) return daemon->state_dir;
    }
    return DefaultStateDir();
  }
  ASSIGN_OR_RETURN(const DaemonStatus daemon, AskDaemon(address));
  return daemon.state_dir;
}

absl::StatusOr<std::unique_ptr<storage::StoreReader>> Globals::OpenStore() const {
  ASSIGN_OR_RETURN(const std::string dir, StateDir());
  if (access(absl::StrCat(dir, "/", storage::kStoreFile).c_str(), R_OK) != 0 && errno == EACCES) {
    return absl::PermissionDeniedError(
        absl::StrCat("the store in ", dir,
                     " may not be read: only its user may. Name a directory of yours with "
                     "--state-dir (or $RANKLOG_STATE_DIR)"));
  }
  auto reader = storage::StoreReader::Open(dir);
  if (absl::IsNotFound(reader.status())) {
    return absl::NotFoundError(
        absl::StrCat("there is no store in ", dir,
                     ". Name another directory with --state-dir (or "
                     "$RANKLOG_STATE_DIR), or make one here: ranklogd --state-dir ",
                     dir));
  }
  return reader;
}

void RunArgument::AddTo(Options& options) {
  options.Add("RUN", &text, kRunHelp, {.required = true});
  options.Add("--project", &project, "look only at the runs of this project", {.type = "NAME"});
}

absl::StatusOr<model::Run> RunArgument::Find(storage::StoreReader& reader) const {
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  return SelectRun(runs, text, project);
}

}  // namespace ranklog::cli
