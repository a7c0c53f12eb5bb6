#include "service/cli/command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/printable.h"
#include "service/base/status_macros.h"
#include "service/cli/daemon_status.h"
#include "service/cli/left_spools.h"
#include "service/cli/terminal.h"
#include "service/model/run.h"
#include "service/model/session.h"
#include "service/query/select_run.h"
#include "service/storage/state_dirs.h"
#include "service/storage/store.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kClosing = absl::Seconds(2);
constexpr absl::Duration kPoll = absl::Milliseconds(20);
// If its ranks ended longer ago, the run waits for something else, such as a disk.
constexpr absl::Duration kEndedJustNow = absl::Seconds(10);

// True if all ranks have ended recently but the run has not.
absl::StatusOr<bool> IsClosing(storage::StoreReader& reader, const model::Run& run) {
  if (run.state != model::RunState::kRunning) return false;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  const int64_t just_now = absl::ToUnixMicros(absl::Now() - kEndedJustNow);
  bool recently = false;
  for (const model::Stream& stream : streams) {
    if (stream.state == model::StreamState::kLive) return false;
    recently |= stream.ended_us > just_now;
  }
  return recently;
}

}  // namespace

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
      absl::StrAppend(&why, "; ", LeftSpoolsText(left), ": ", HowToTake(*this, dir, left));
    }
    return absl::NotFoundError(
        absl::StrCat("there is no store in ", dir,
                     "; choose another directory with --state-dir (or "
                     "$RANKLOG_STATE_DIR), or create one here: ranklogd --state-dir ",
                     dir, why));
  }
  return reader;
}

void RunArgument::AddTo(Options& options) {
  options.Add("RUN", &text, query::kRunHelp, {.check = CheckNotEmpty, .required = true});
  options.Add("--project", &project, "consider only the runs of this project", {.type = "NAME"});
}

absl::Status AwaitEnds(const Globals& globals, storage::StoreReader& reader,
                       std::vector<model::Run>* runs) {
  const absl::Time deadline = SteadyNow() + kClosing;
  std::string dir;  // set when needed, because it may query a daemon
  for (model::Run& run : *runs) {
    while (SteadyNow() < deadline) {
      ASSIGN_OR_RETURN(const bool closing, IsClosing(reader, run));
      if (!closing) break;
      if (dir.empty()) dir = globals.StateDir().value_or("");
      if (dir.empty() || storage::StateLock::Holder(dir) == 0) return absl::OkStatus();
      absl::SleepFor(kPoll);
      absl::StatusOr<model::Run> now = reader.GetRun(run.id);
      if (absl::IsNotFound(now.status())) break;  // it was delivered and removed in the meantime
      RETURN_IF_ERROR(now.status());
      run = *std::move(now);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<model::Run> AwaitEnd(const Globals& globals, storage::StoreReader& reader,
                                    const model::Run& run) {
  std::vector<model::Run> runs = {run};
  RETURN_IF_ERROR(AwaitEnds(globals, reader, &runs));
  return runs.front();
}

absl::StatusOr<model::Run> RunArgument::Find(const Globals& globals,
                                             storage::StoreReader& reader) const {
  // The run may be only in a spool, as in `./train && ranklog show latest`.
  WarnOfUntakenRows(globals);
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  ASSIGN_OR_RETURN(const model::Run run, query::SelectRun(runs, text, project));
  return AwaitEnd(globals, reader, run);
}

}  // namespace ranklog::cli
