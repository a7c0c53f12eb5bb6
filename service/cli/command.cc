#include "service/cli/command.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/model/run.h"
#include "service/model/session.h"
#include "service/query/select_run.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kClosing = absl::Seconds(2);
constexpr absl::Duration kPoll = absl::Milliseconds(20);
// If its ranks ended longer ago, the run waits for something else, such as a disk.
constexpr absl::Duration kEndedJustNow = absl::Seconds(10);
// A rank that dies before it attaches lives for a moment. An older ring waits for something else.
constexpr auto kNew = std::chrono::minutes(1);

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

bool ChangedRecently(const std::string& path) {
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(path, error);
  return !error && std::filesystem::file_time_type::clock::now() - changed < kNew;
}

// Waits until a daemon has stored what dead ranks of the run left in their spools.
absl::Status AwaitSpools(const Globals& globals, storage::StoreReader& reader,
                         const model::Run& run) {
  ASSIGN_OR_RETURN(const std::string state_dir, globals.StateDir());
  for (const absl::Time deadline = SteadyNow() + kDaemonTakes; SteadyNow() < deadline;
       absl::SleepFor(kPoll)) {
    ASSIGN_OR_RETURN(const std::vector<UnreadSpool> left,
                     SpoolsOfRun(FindAllSpools(state_dir), reader, run));
    const bool all_live =
        std::all_of(left.begin(), left.end(), [](const UnreadSpool& spool) { return spool.lives; });
    if (all_live || storage::StateLock::Holder(state_dir) == 0) break;
  }
  return absl::OkStatus();
}

}  // namespace

void RunArgument::AddTo(Options& options) {
  options.Add("RUN", &text, query::kRunHelp, {.required = true});
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

void AwaitNewRuns(const Globals& globals) {
  const absl::StatusOr<std::string> dir = globals.StateDir();
  if (!dir.ok()) return;
  for (const absl::Time deadline = SteadyNow() + kDaemonTakes;
       SteadyNow() < deadline && storage::StateLock::Holder(*dir) != 0; absl::SleepFor(kPoll)) {
    const std::vector<UnreadSpool> left = FindSpoolsOfDeadRanks(globals, *dir);
    const auto is_new = [](const UnreadSpool& spool) {
      return spool.run == 0 && ChangedRecently(spool.path);
    };
    if (std::none_of(left.begin(), left.end(), is_new)) return;
  }
}

absl::StatusOr<model::Run> AwaitEnd(const Globals& globals, storage::StoreReader& reader,
                                    const model::Run& run) {
  RETURN_IF_ERROR(AwaitSpools(globals, reader, run));
  const absl::StatusOr<model::Run> now = reader.GetRun(run.id);
  // Not found: it was delivered and removed in the meantime.
  if (!now.ok() && !absl::IsNotFound(now.status())) return now.status();
  std::vector<model::Run> runs = {now.ok() ? *now : run};
  RETURN_IF_ERROR(AwaitEnds(globals, reader, &runs));
  return runs.front();
}

absl::StatusOr<model::Run> RunArgument::Find(const Globals& globals,
                                             storage::StoreReader& reader) const {
  // The run may be only in a spool, as in `./train && ranklog show latest`.
  WarnOfUnreadRows(globals);
  AwaitNewRuns(globals);
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  ASSIGN_OR_RETURN(const model::Run run, query::SelectRun(runs, text, project));
  return AwaitEnd(globals, reader, run);
}

}  // namespace ranklog::cli
