#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "service/base/clock.h"
#include "service/base/file_identity.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/sync/sync_choice.h"
#include "service/cli/sync/sync_destinations.h"
#include "service/cli/sync/sync_logs.h"
#include "service/cli/sync/sync_report.h"
#include "service/cli/sync/sync_spools.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/query/run_report.h"
#include "service/storage/database/store_file.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kSyncPoll = absl::Milliseconds(200);
// If nothing changes for this long, a run that expects ranks has all its rows for now.
constexpr absl::Duration kQuiet = absl::Seconds(2);
// Wait before a silent daemon is asked once more, because a busy one may be slow. Longer than the
// time for which AskDaemon() remembers the silence.
constexpr absl::Duration kAskAgain = absl::Milliseconds(1100);

constexpr char kSyncFooter[] = R"(
Without RUN, delivers every run that is not fully delivered. If a daemon is running, it delivers and this command
waits. Without a daemon, this command reads the spools of ended ranks and delivers by itself. If a rank starts
meanwhile, its daemon takes over. Interrupting this command loses nothing: the next sync continues.
The progress also counts the files of artifacts and of runs that are uploaded, and their bytes.

If this node has no key for the server of a run, that run waits. The other runs are delivered.

A run is set apart if its delivery crashed Ranklog twice in a row. It is tried once more if RUN names it.

With --wait, the command also waits until the daemon's running runs have ended, however long that takes.

PATH delivers the runs of W&B's SDK that are stored in .wandb logs, once: a log is imported into STATE_DIR/imported,
which remembers what its server has. Its file *.wandb.synced then marks it, and the next sync skips it. Of a
directory of run directories, those of online runs (run-*) are left out. The parts of a resumed run are joined.

A run whose only destination is `local` stays on this node, unless --to adds a destination. That is an error only if
RUN names it.

Exit code 0: all rows are delivered, except those of local runs that were not named, and the last rows of running
ranks. 1: rows are left; each run is listed with its number of rows and the reason. Also 1 if rows are in a spool that
no daemon reads: that of a running rank without a daemon, or one that no daemon here can take, which is named with what
to do. Also 1 if stored rows wait for the end of a rank, which only a daemon can find out. If RUN is given, only rows
of these runs count.

Examples:
  ranklog sync
  ranklog sync latest --to wandb
  ranklog sync latest --wait                     as the last command of a job
  ranklog sync gpt:abc123 --timeout 10m
  ranklog sync gpt:abc123 --base-url https://wandb.example.com
  ranklog sync gpt:abc123 --set MLFLOW_EXPERIMENT_ID=7
  ranklog sync gpt:abc123 --to offline           into ./wandb, for `wandb sync`
  ranklog sync wandb/offline-run-20260102_030405-abc123
  ranklog sync --all --exclude '*-debug*' --dry-run
  ranklog sync /data/runs --as-project gpt --to wandb
  ranklog sync --all --json | jq -r '.[] | select(.result == "failed") | .why')";

struct SyncFlags {
  SyncChoice::Flags choice;
  SyncDestinations::Flags destinations;
  bool wait = false;
  std::string timeout = "2m";
  LogSyncFlags logs;
};

class Sync {
 public:
  Sync(const Globals& globals, const std::string& state_dir, const SyncFlags& flags)
      : globals_(globals),
        flags_(flags),
        state_dir_(state_dir),
        spools_(globals, state_dir),
        choice_(flags.choice),
        destinations_(globals, state_dir, flags.destinations, flags.choice.runs.size()),
        report_(globals, state_dir) {}

  absl::Status Run() {
    globals_.WarnOfOtherDaemon(state_dir_);
    absl::ParseDuration(flags_.timeout, &timeout_);  // cannot fail: the flag's check accepted it
    const bool left = !FindSpoolsOfDeadRanks(globals_, state_dir_).empty();
    const bool unaggregated = !UnaggregatedRowsText(state_dir_).empty();
    if (!left) {
      ASSIGN_OR_RETURN(reader_, globals_.OpenStore());  // does not create a store
    }
    RETURN_IF_ERROR(TakeLock());
    if (lock_ == nullptr) RETURN_IF_ERROR(CheckDaemon());
    if (left || unaggregated) RETURN_IF_ERROR(spools_.Take(/*holds_lock=*/lock_ != nullptr));
    if (reader_ == nullptr) {
      ASSIGN_OR_RETURN(reader_, globals_.OpenStore());
    }
    file_ = FileIdentity(StorePath());
    RETURN_IF_ERROR(OpenPipeline());
    RETURN_IF_ERROR(Choose());
    absl::Status status = Deliver();
    if (status.ok()) status = DeliverTheRest();
    status.Update(Conclude());  // also lists the runs of a delivery that could not begin
    const absl::Status taken = CheckSpools();
    if (!status.ok() && !taken.ok()) std::cerr << "ranklog: " << taken.message() << "\n";
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(taken);
    const auto named = choice_.AreNamed() ? absl::make_optional(choice_.chosen()) : absl::nullopt;
    if (const std::string left = UnaggregatedRowsText(state_dir_, named); !left.empty()) {
      return absl::UnavailableError(
          absl::StrCat(left,
                       ", because the end of a rank is unknown; a daemon settles it within 20 "
                       "seconds: ranklogd --background"));
    }
    if (choice_.chosen().empty()) std::cout << "nothing waits to be delivered\n";
    return absl::OkStatus();
  }

 private:
  // Leaves lock_ null if another process, a daemon or a sync, holds the lock.
  absl::Status TakeLock() {
    auto lock = storage::StateLock::Acquire(state_dir_);
    if (absl::IsAlreadyExists(lock.status())) return absl::OkStatus();
    RETURN_IF_ERROR(lock.status());
    lock_ = std::make_unique<storage::StateLock>(*std::move(lock));
    return absl::OkStatus();
  }

  absl::Status OpenPipeline() {
    if (lock_ == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(pipeline_, SyncPipeline::Open(state_dir_));
    return absl::OkStatus();
  }

  absl::Status StartPipeline() {
    if (pipeline_ == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<query::RunReport> reports, choice_.Reports(*reader_));
    FindRunsWithoutKey(reports);
    if (!without_key_.empty() && without_key_.size() == reports.size()) return KeyError();
    report_.IgnoreOldErrors(reports);
    std::set<int64_t> runs = choice_.chosen();
    for (const auto& [run, why] : without_key_) runs.erase(run);
    return pipeline_->Start(std::move(runs));
  }

  absl::Status Deliver() {
    if (choice_.chosen().empty()) return absl::OkStatus();
    RETURN_IF_ERROR(StartPipeline());
    return Wait();
  }

  // Delivers the rows of ranks that have ended in the meantime.
  absl::Status DeliverTheRest() {
    while (lock_ != nullptr && spools_.AnyNew()) {
      pipeline_.reset();
      RETURN_IF_ERROR(spools_.Take(/*holds_lock=*/true));
      RETURN_IF_ERROR(OpenPipeline());
      if (!choice_.AreNamed()) RETURN_IF_ERROR(Choose());
      RETURN_IF_ERROR(Deliver());
    }
    return absl::OkStatus();
  }

  // A daemon that hangs stores and delivers nothing, and may have rows that it had not stored.
  absl::Status CheckDaemon() {
    if (FindDaemon(state_dir_, globals_.address)) return absl::OkStatus();
    const int64_t pid = storage::StateLock::Holder(state_dir_);
    const std::string address = TimedOutAddress(pid, globals_.address);
    if (address.empty()) return absl::OkStatus();  // listens elsewhere or not yet, or is a sync
    absl::SleepFor(kAskAgain);
    if (FindDaemon(state_dir_, globals_.address)) return absl::OkStatus();
    if (auto reader = storage::StoreReader::Open(state_dir_); reader.ok()) {
      reader_ = *std::move(reader);
      ASSIGN_OR_RETURN(const std::vector<model::Run> runs, choice_.Candidates(*reader_));
      for (const model::Run& run : runs) {
        RETURN_IF_ERROR(choice_.ChooseIfOpen(*reader_, run).status());
      }
      Conclude().IgnoreError();  // prints what is left
    }
    const std::vector<UnreadSpool> left = FindSpools(globals_, state_dir_);
    return absl::UnavailableError(absl::StrCat(
        "the daemon has the store, but ", TimeoutText(pid, address),
        left.empty() ? "" : "\nuntil it continues: ", left.empty() ? "" : UnreadSpoolsText(left)));
  }

  absl::Status Choose() {
    if (!flags_.destinations.base_url.empty()) {
      ASSIGN_OR_RETURN(const std::vector<model::Run> all, choice_.Candidates(*reader_));
      RETURN_IF_ERROR(destinations_.SetAddress(all, pipeline_.get()));
    }
    ASSIGN_OR_RETURN(const std::vector<model::Run> runs, choice_.Candidates(*reader_));
    std::vector<std::string> local;
    for (const model::Run& run : runs) {
      RETURN_IF_ERROR(destinations_.Apply(run, *reader_, pipeline_.get()));
      ASSIGN_OR_RETURN(const bool has_tracker, choice_.ChooseIfOpen(*reader_, run));
      if (!has_tracker) local.push_back(run.run_id);
    }
    return choice_.ReportLocalRuns(globals_, runs.size(), local);
  }

  // These runs wait for a key, while the others are delivered.
  void FindRunsWithoutKey(const std::vector<query::RunReport>& reports) {
    without_key_.clear();
    for (const query::RunReport& report : reports) {
      for (const query::DestinationReport& destination : report.destinations) {
        if (!IsTracker(destination) || destination.complete) continue;
        absl::Status found = pipeline_->CheckCredentials(report.run, destination.kind);
        if (!found.ok()) without_key_.emplace(report.run.id, std::move(found));
      }
    }
  }
  const absl::Status& KeyError() const { return without_key_.begin()->second; }

  // Waits until everything is delivered, or nothing has changed for the timeout.
  absl::Status Wait() {
    ProgressBar progress("sync", /*lines=*/true);
    UploadProgress uploads;
    absl::optional<SyncProgress> last;
    absl::Time moved = SteadyNow();
    while (true) {
      if (!file_.InPlace()) {
        return absl::DataLossError(
            absl::StrCat(StorePath(), " was removed or replaced; its undelivered rows are lost"));
      }
      ASSIGN_OR_RETURN(std::vector<query::RunReport> reports, choice_.Reports(*reader_));
      if (pipeline_ != nullptr) {
        std::erase_if(reports, [this](const query::RunReport& report) {
          return without_key_.count(report.run.id) != 0;
        });
      }
      const SyncProgress current = ProgressOf(reports);
      uploads.Show(current, &progress);
      report_.PrintErrors(reports, &progress);
      report_.PrintStoreError(pipeline_ == nullptr ? "" : pipeline_->StoreError(), &progress);
      if (lock_ != nullptr && storage::StateRequest::Any(state_dir_)) {
        progress.Clear();
        GiveWay();
        last.reset();
      } else if (lock_ == nullptr) {
        if (gave_way_) RETURN_IF_ERROR(Follow());
        if (lock_ == nullptr) HandOver(reports);
      }
      if (last != current) moved = SteadyNow();
      last = current;
      const absl::Duration still = SteadyNow() - moved;
      const bool goes_on = flags_.wait && current.going > 0 && pipeline_ == nullptr &&
                           storage::StateLock::Holder(state_dir_) != 0;
      if (current.open == 0 && !goes_on && (current.going == 0 || still > kQuiet)) {
        bool ends = false;
        for (size_t i = 0; lock_ == nullptr && !ends && i < reports.size(); ++i) {
          ASSIGN_OR_RETURN(ends, EndsSoon(state_dir_, reports[i].run, *reader_));
        }
        if (!ends) return absl::OkStatus();
      }
      if (goes_on) moved = SteadyNow();
      if (still > timeout_) return absl::OkStatus();
      absl::SleepFor(kSyncPoll);
    }
  }

  // A rank has started, and its ring could be full long before everything is delivered.
  void GiveWay() {
    std::cerr << "a daemon is starting; it takes over the store and the delivery\n";
    pipeline_.reset();
    lock_.reset();
    gave_way_ = true;
    handed_over_.clear();
  }

  // Follows the daemon that took over the store. If that daemon is gone, this process continues by
  // itself.
  absl::Status Follow() {
    if (storage::StateLock::Holder(state_dir_) != 0 || storage::StateRequest::Any(state_dir_)) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(TakeLock());
    RETURN_IF_ERROR(OpenPipeline());
    return StartPipeline();
  }

  // Lets the daemon try each open delivery now. The key of this process would replace that of the
  // job, so it goes only to a run that the user named or that lacks a key.
  void HandOver(const std::vector<query::RunReport>& reports) {
    for (const query::RunReport& report : reports) {
      for (const query::DestinationReport& to : report.destinations) {
        if (!IsTracker(to) || to.set_apart || !IsOpen(report, to)) continue;
        const bool with_key = !flags_.choice.runs.empty() || deliver::LacksKey(to.last_error);
        const std::tuple<int64_t, std::string, bool> request(report.run.id, to.kind, with_key);
        if (handed_over_.count(request) != 0) continue;
        // The daemon reports what it lacks.
        const absl::Status asked =
            AskDaemonToDeliver(globals_, state_dir_, report.run, to.kind, with_key);
        if (!absl::IsUnavailable(asked)) handed_over_.insert(request);
      }
    }
  }

  // Ends the delivery, and prints its result. Returns an error unless everything is delivered.
  absl::Status Conclude() {
    const bool lacks_key = pipeline_ != nullptr && !without_key_.empty();
    pipeline_.reset();
    lock_.reset();
    ASSIGN_OR_RETURN(const std::vector<query::RunReport> reports, choice_.Reports(*reader_));
    const absl::Status status = report_.Conclude(reports);
    return lacks_key && !status.ok() ? KeyError() : status;
  }

  // Of named runs, only their own spools count.
  absl::Status CheckSpools() {
    const auto chosen = choice_.Reports(*reader_);
    return spools_.CheckAllTaken([&](const UnreadSpool& spool) {
      if (!choice_.AreNamed() || !chosen.ok()) return true;
      return std::any_of(chosen->begin(), chosen->end(), [&](const query::RunReport& report) {
        const auto of_run = SpoolsOfRun({spool}, *reader_, report.run);
        return !of_run.ok() || !of_run->empty();
      });
    });
  }

  std::string StorePath() const { return absl::StrCat(state_dir_, "/", storage::kStoreFile); }

  const Globals& globals_;
  const SyncFlags& flags_;
  absl::Duration timeout_;
  const std::string state_dir_;
  SyncSpools spools_;
  SyncChoice choice_;
  SyncDestinations destinations_;
  SyncReport report_;
  std::unique_ptr<storage::StoreReader> reader_;
  FileIdentity file_;                            // the store that `reader_` has open
  std::unique_ptr<storage::StateLock> lock_;     // null: a daemon holds the store and delivers
  std::unique_ptr<SyncPipeline> pipeline_;       // set only with `lock_`
  std::map<int64_t, absl::Status> without_key_;  // runs, with the error that names the server
  bool gave_way_ = false;  // the store was passed to a daemon that started later
  std::set<std::tuple<int64_t, std::string, bool>> handed_over_;  // requests to the daemon
};

// The options that are only for logs.
std::string OptionOfLogs(const LogSyncFlags& logs) {
  if (!logs.include.empty()) return "--include";
  if (!logs.exclude.empty()) return "--exclude";
  if (logs.instead != imports::Target()) return "--as-project, --as-entity or --as-id";
  if (logs.include_synced) return "--include-synced";
  if (logs.dry_run) return "--dry-run";
  if (logs.json) return "--json";
  return logs.live ? "--live" : "";
}

absl::Status RunLogsSync(const Globals& globals, const SyncFlags& flags) {
  LogSyncFlags logs = flags.logs;
  for (const std::string& word : flags.choice.runs) {
    if (!IsLogPath(word)) return WrongUsage(absl::StrCat(word, " is not a path; name runs alone"));
  }
  if (!flags.choice.project.empty()) return WrongUsage("--project is for runs; use --as-project");
  if (flags.wait) return WrongUsage("--wait is for runs; use --live");
  if (!flags.destinations.set.empty()) return WrongUsage("--set is for runs");
  logs.paths = flags.choice.runs;
  logs.to = flags.destinations.to;
  logs.base_url = flags.destinations.base_url;
  absl::ParseDuration(flags.timeout, &logs.timeout);  // cannot fail: the flag's check accepted it
  return SyncLogs(globals, logs);
}

absl::Status RunSync(const Globals& globals, const SyncFlags& flags) {
  const std::vector<std::string>& words = flags.choice.runs;
  if (flags.logs.all || std::any_of(words.begin(), words.end(), IsLogPath)) {
    return RunLogsSync(globals, flags);
  }
  if (const std::string option = OptionOfLogs(flags.logs); !option.empty()) {
    return WrongUsage(absl::StrCat(option, " needs PATH or --all"));
  }
  if (!flags.destinations.base_url.empty() && flags.choice.runs.empty()) {
    return WrongUsage("--base-url needs RUN");
  }
  if (!flags.destinations.set.empty() && flags.choice.runs.empty())
    return WrongUsage("--set needs RUN");
  if (!flags.choice.slurm_job.empty() && !flags.wait) return WrongUsage("--slurm-job needs --wait");
  ASSIGN_OR_RETURN(const std::string state_dir, globals.StateDir());
  return Sync(globals, state_dir, flags).Run();
}

}  // namespace

void AddSync(Program& program) {
  auto [options, flags] = program.Add("sync", "deliver all waiting rows", kSyncFooter, RunSync);
  options.Add(
      "RUN", &flags.choice.runs,
      "run (id, name or latest), or PATH: a .wandb log, its directory, or a directory of such");
  options.Add("--project", &flags.choice.project, "only runs of this project", {.type = "NAME"});
  options.Add("--to", &flags.destinations.to, "also deliver to this tracker",
              {.one_of = deliver::DestinationKinds()});
  options.Add(
      "--base-url", &flags.destinations.base_url,
      "correct the address of the server of RUN, or the directory of offline runs, if nothing of "
      "its job is delivered yet",
      {.type = "URL"});
  options.Add(
      "--set", &flags.destinations.set,
      "change a setting of RUN's tracker, such as MLFLOW_EXPERIMENT_ID, under the same condition; "
      "an empty value removes it; may be repeated",
      {.type = "VARIABLE=VALUE"});
  options.Add("--wait", &flags.wait, "also wait until the runs have ended");
  options.Add("--slurm-job", &flags.choice.slurm_job,
              "with --wait: ignore running runs of other Slurm jobs", {.type = "ID"});
  options.Add("--timeout", &flags.timeout, "give up after this time without progress; default 2m",
              {.type = "DURATION", .check = CheckDuration});
  LogSyncFlags& logs = flags.logs;
  options.Add("--all", &logs.all,
              "the run directories in ./wandb and ./.wandb, or those of $WANDB_DIR");
  options.Add("--include", &logs.include, "only run directories with such a name; may be repeated",
              {.type = "GLOB"});
  options.Add("--exclude", &logs.exclude, "not those with such a name; may be repeated",
              {.type = "GLOB"});
  options.Add("--as-project", &logs.instead.project, "another project than the log's",
              {.type = "NAME"});
  options.Add("--as-entity", &logs.instead.entity, "another entity", {.type = "NAME"});
  options.Add("--as-id", &logs.instead.run_id, "another id, for one run", {.type = "ID"});
  options.Add("--include-synced", &logs.include_synced, "also logs that were synced before");
  options.Add("--dry-run", &logs.dry_run, "only print what would be sent");
  options.Add("--json", &logs.json, "print an array of the runs of the logs, for programs");
  options.Add("--live", &logs.live, "follow logs until their programs have ended");
  options.Add("--parallel", &logs.parallel, "the number of runs at a time; default 5",
              {.check = CheckPositive});
}

}  // namespace ranklog::cli
