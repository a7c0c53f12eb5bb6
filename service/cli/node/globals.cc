#include "service/cli/node/globals.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/base/text/shell_word.h"
#include "service/cli/node/daemon_log_place.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/deliver/destination.h"
#include "service/storage/database/store_file.h"
#include "service/storage/directories/state_dirs.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

// Only a new or an empty directory becomes a state directory by mistake without harm.
bool MayBecomeStateDir(const std::string& dir) {
  std::error_code error;
  return !std::filesystem::exists(dir, error) ||
         (std::filesystem::is_directory(dir, error) && std::filesystem::is_empty(dir, error));
}

absl::Status NoStore(const Globals& globals, const std::string& dir) {
  std::string text = absl::StrCat("there is no store in ", Printable(dir));
  if (const auto daemon = FindOtherDaemon(dir, globals.address)) {
    return absl::NotFoundError(absl::StrCat(
        text, ": ", OtherDaemonText(*daemon), "; use --state-dir ",
        Printable(ShellWord(daemon->state_dir)), ", or stop it for another directory: ",
        Globals{.state_dir = daemon->state_dir, .address = ""}.Command("stop")));
  }
  absl::StrAppend(&text, "; choose another directory with --state-dir (or $RANKLOG_STATE_DIR)");
  if (MayBecomeStateDir(dir)) {
    absl::StrAppend(&text, ", or create one here: ranklogd --state-dir ",
                    Printable(ShellWord(dir)));
  }
  const auto log = FindDaemonLog(globals.address);
  if (log.has_value() && !log->last_words.empty()) {
    absl::StrAppend(&text, "; the daemon could not start: ", Printable(log->last_words), " (",
                    log->path, ")");
  }
  if (const auto left = FindUnreadSpools(globals, dir); !left.empty()) {
    absl::StrAppend(&text, "; ", UnreadSpoolsText(left), ": ",
                    UnreadSpoolsAdvice(globals, dir, left));
  }
  return absl::NotFoundError(text);
}

}  // namespace

std::string Globals::UploadCommand(const std::string& runs) const {
  return Command(absl::StrCat("sync ", runs, " --to ", deliver::UsualDestination().kind()));
}

std::string Globals::Command(const std::string& subcommand) const {
  std::string command = "ranklog ";
  if (!state_dir.empty()) {
    absl::StrAppend(&command, "--state-dir ", Printable(ShellWord(state_dir)), " ");
  } else if (!address.empty()) {
    absl::StrAppend(&command, "--address ", Printable(ShellWord(address)), " ");
  }
  return command + subcommand;
}

absl::StatusOr<std::string> Globals::StateDir() const {
  if (!state_dir.empty()) return state_dir;
  if (!address.empty()) {
    ASSIGN_OR_RETURN(const DaemonStatus daemon, AskDaemon(address));
    return daemon.state_dir;
  }
  const std::vector<std::string> dirs = storage::DefaultStateDirs();
  if (EnvironmentVariable("RANKLOG_STATE_DIR").empty()) {
    for (const std::string& usual : AddressesOfRanks(address)) {
      const absl::StatusOr<DaemonStatus> daemon = AskDaemon(usual);
      if (daemon.ok()) return daemon->state_dir;
      if (absl::IsInvalidArgument(daemon.status())) {  // only a variable has another form
        return absl::InvalidArgumentError(
            absl::StrCat("RANKLOG_ADDRESS: ", daemon.status().message()));
      }
    }
  }
  const auto has_store = [](const std::string& dir) {
    return access(absl::StrCat(dir, "/", storage::kStoreFile).c_str(), F_OK) == 0;
  };
  const auto found = std::find_if(dirs.begin(), dirs.end(), has_store);
  return found == dirs.end() ? dirs.front() : *found;
}

void Globals::WarnOfOtherDaemon(const std::string& dir) const {
  if (!state_dir.empty()) return;
  if (const auto daemon = FindOtherDaemon(dir, address)) {
    std::cerr << OtherDaemonText(*daemon) << ": new runs are there, not in " << Printable(dir)
              << "\n";
  }
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
  if (absl::IsNotFound(reader.status())) return NoStore(*this, dir);
  return reader;
}

}  // namespace ranklog::cli
