#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "service/base/clock.h"
#include "service/base/file_identity.h"
#include "service/base/number_text.h"
#include "service/base/printable.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/left_spools.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/cli/output/progress_bar.h"
#include "service/pipeline/slurm_job.h"
#include "service/query/run_report.h"
#include "service/query/select_run.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kSyncPoll = absl::Milliseconds(200);
// If ranks of a run are still expected but nothing changes for this long, the run has all its rows
// for now.
constexpr absl::Duration kQuiet = absl::Seconds(2);
// A daemon scans for spools every 3 s, and waits a little before it reads one.
constexpr absl::Duration kDaemonTakes = absl::Seconds(10);
// Wait before a silent daemon is asked once more, because a busy one may be slow. Longer than the
// time for which AskDaemon() remembers the silence.
constexpr absl::Duration kAskAgain = absl::Milliseconds(1100);
// A rank that finds no daemon starts one at once. That daemon then opens its store.
constexpr absl::Duration kDaemonStarts = absl::Seconds(2);

constexpr char kSyncFooter[] = R"(
Without RUN: every run that is not fully delivered. If a daemon is running, it delivers and this command waits;
without a daemon, this command reads the spools of ended ranks and delivers by itself. If a rank starts meanwhile,
its daemon takes over. Interrupting this command loses nothing: the next sync continues.
A run that is set apart because its delivery crashed Ranklog twice in a row is tried once more if it is named.

With --wait it also waits until the running runs of a daemon have ended, however long that takes.

A run whose only destination is `local` stays on this node, unless --to adds a destination.

Exit code 0: all rows are delivered. 1: not all; each run is listed with the rest and the reason. Also 1 if a
running rank has rows in its spool but no daemon, because only a daemon reads those.

Examples:
  ranklog sync
  ranklog sync latest --to wandb
  ranklog sync latest --wait                     as the last command of a job
  ranklog sync gpt:abc123 --timeout 10m)";

struct SyncFlags {
  std::vector<std::string> runs;
  std::string project;
  std::string to;
  bool wandb = false;
  bool wait = false;
  std::string slurm_job;
  std::string timeout = "2m";
};

bool Leaves(const query::DestinationReport& destination) {
  return destination.kind != query::kLocal;
}

bool HasTracker(const query::RunReport& report) {
  return std::any_of(report.destinations.begin(), report.destinations.end(), Leaves);
}

// The progress of all chosen runs together.
struct Sum {
  uint64_t done = 0;  // rows that do not wait, over all destinations
  uint64_t total = 0;
  uint64_t open = 0;   // active destinations that lack rows or the run's end
  uint64_t going = 0;  // runs that have not ended

  friend bool operator==(const Sum&, const Sum&) = default;
};

Sum SumOf(const std::vector<query::RunReport>& reports) {
  Sum sum;
  for (const query::RunReport& report : reports) {
    if (report.run.state == model::RunState::kRunning) ++sum.going;
    for (const query::DestinationReport& destination : report.destinations) {
      if (!Leaves(destination)) continue;
      sum.done += report.run.rows - destination.pending_rows;
      sum.total += report.run.rows;
      if (IsOpen(report, destination) && !destination.set_apart) ++sum.open;
    }
  }
  return sum;
}

class Sync {
 public:
  Sync(const Globals& globals, const SyncFlags& flags) : globals_(globals), flags_(flags) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(state_dir_, globals_.StateDir());
    absl::ParseDuration(flags_.timeout, &timeout_);  // cannot fail: the flag's check accepted it
    const bool left = !FindSpoolsOfDeadRanks(globals_, state_dir_).empty();
    const bool unmade = !UnaggregatedRowsText(state_dir_).empty();
    if (!left) {
      ASSIGN_OR_RETURN(reader_, globals_.OpenStore());  // does not create a store
    }
    RETURN_IF_ERROR(TakeLock());
    if (lock_ == nullptr) RETURN_IF_ERROR(CheckDaemon());
    if (left || unmade) RETURN_IF_ERROR(TakeSpools());
    if (reader_ == nullptr) {
      ASSIGN_OR_RETURN(reader_, globals_.OpenStore());
    }
    file_ = FileIdentity(StorePath());
    RETURN_IF_ERROR(OpenPipeline());
    RETURN_IF_ERROR(Choose());
    RETURN_IF_ERROR(Deliver());
    absl::Status status = DeliverTheRest();
    status.Update(Conclude());
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(AllIsTaken());
    if (chosen_.empty()) std::cout << "nothing waits to be delivered\n";
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
    RETURN_IF_ERROR(CheckCredentials());
    RETURN_IF_ERROR(LeaveOldErrors());
    return pipeline_->Start(chosen_);
  }

  absl::Status Deliver() {
    if (chosen_.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(StartPipeline());
    return Wait();
  }

  // Delivers the rows of ranks that have ended in the meantime.
  absl::Status DeliverTheRest() {
    while (lock_ != nullptr && AnyNewSpool()) {
      pipeline_.reset();
      RETURN_IF_ERROR(TakeSpools());
      RETURN_IF_ERROR(OpenPipeline());
      if (flags_.runs.empty()) RETURN_IF_ERROR(Choose());
      RETURN_IF_ERROR(Deliver());
    }
    return absl::OkStatus();
  }

  bool AnyNewSpool() const {
    const std::vector<LeftSpool> left = FindSpoolsOfDeadRanks(globals_, state_dir_);
    return std::any_of(left.begin(), left.end(), [this](const LeftSpool& spool) {
      return tried_spools_.count(spool.path) == 0;
    });
  }

  // A daemon that hangs stores and delivers nothing. It is unknown which rows it had not stored
  // yet.
  absl::Status CheckDaemon() {
    if (FindDaemon(state_dir_, globals_.address)) return absl::OkStatus();
    const int64_t pid = storage::StateLock::Holder(state_dir_);
    const std::string address = TimedOutAddress(pid, globals_.address);
    if (address.empty()) return absl::OkStatus();  // listens elsewhere or not yet, or is a sync
    absl::SleepFor(kAskAgain);
    if (FindDaemon(state_dir_, globals_.address)) return absl::OkStatus();
    if (auto reader = storage::StoreReader::Open(state_dir_); reader.ok()) {
      reader_ = *std::move(reader);
      ASSIGN_OR_RETURN(const std::vector<model::Run> runs, NamedRuns());
      for (const model::Run& run : runs) RETURN_IF_ERROR(ChooseIfOpen(run).status());
      Conclude().IgnoreError();  // prints what is left
    }
    const std::vector<LeftSpool> left = FindSpools(globals_, state_dir_);
    return absl::UnavailableError(absl::StrCat(
        "the daemon has the store, but ", TimeoutText(pid, address),
        left.empty() ? "" : "\nuntil it continues: ", left.empty() ? "" : LeftSpoolsText(left)));
  }

  // Gets the rows of dead ranks stored: by this process, or by the daemon that holds the store and
  // may be starting.
  absl::Status TakeSpools() {
    const std::vector<LeftSpool> before = FindSpoolsOfDeadRanks(globals_, state_dir_);
    for (const LeftSpool& spool : before) tried_spools_.insert(spool.path);
    if (SpoolsAreOfAnotherDaemon(globals_, state_dir_)) return absl::OkStatus();
    if (lock_ == nullptr) {
      const absl::Time deadline = SteadyNow() + kDaemonTakes;
      while (!FindSpoolsOfDeadRanks(globals_, state_dir_).empty() && SteadyNow() < deadline) {
        absl::SleepFor(kSyncPoll);
      }
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(DrainLeftSpools(globals_, state_dir_));
    const std::vector<LeftSpool> after = FindSpoolsOfDeadRanks(globals_, state_dir_);
    if (after.size() < before.size()) {
      std::cout << "took "
                << Counted(LeftRows(before) - std::min(LeftRows(after), LeftRows(before)), "row")
                << " from the " << (before.size() - after.size() == 1 ? "spool" : "spools")
                << " of " << Counted(before.size() - after.size(), "rank") << "\n";
    }
    return absl::OkStatus();
  }

  // Fails if rows are left in a spool, because they are not delivered.
  absl::Status AllIsTaken() const {
    RETURN_IF_ERROR(LivingHaveADaemon());
    const std::vector<LeftSpool> left = FindSpoolsOfDeadRanks(globals_, state_dir_);
    if (left.empty() || SpoolsAreOfAnotherDaemon(globals_, state_dir_)) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("not in the store yet: ", LeftSpoolsText(left),
                     "; a daemon stores them as soon as it can; see its log: ranklog daemon-log"));
  }

  // Waits a moment, because a rank that has just started starts a daemon.
  absl::Status LivingHaveADaemon() const {
    const absl::Time deadline = SteadyNow() + kDaemonStarts;
    while (true) {
      std::vector<LeftSpool> left = FindUnreadSpools(globals_, state_dir_);
      std::erase_if(left, [](const LeftSpool& each) { return !each.lives; });
      if (left.empty()) return absl::OkStatus();
      if (SteadyNow() > deadline) {
        return absl::UnavailableError(
            absl::StrCat(LeftSpoolsText(left), ": ", HowToTake(globals_, state_dir_, left)));
      }
      absl::SleepFor(kSyncPoll);
    }
  }

  // The named runs; if none is named, all runs of the project.
  absl::StatusOr<std::vector<model::Run>> NamedRuns() const {
    ASSIGN_OR_RETURN(std::vector<model::Run> all, reader_->Runs());
    if (flags_.runs.empty()) {
      std::erase_if(all, [&](const model::Run& run) {
        return !flags_.project.empty() && run.project != flags_.project;
      });
      return all;
    }
    std::vector<model::Run> runs;
    for (const std::string& text : flags_.runs) {
      ASSIGN_OR_RETURN(runs.emplace_back(), query::SelectRun(all, text, flags_.project));
    }
    return runs;
  }

  // Whether the run is running under another job than that of --slurm-job, which does not wait for
  // it.
  absl::StatusOr<bool> GoesOnElsewhere(const model::Run& run) const {
    if (flags_.slurm_job.empty() || run.state != model::RunState::kRunning) return false;
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader_->Streams(run.id));
    return std::none_of(streams.begin(), streams.end(), [this](const model::Stream& stream) {
      return pipeline::SlurmJobId(stream.launch.batch_job) == flags_.slurm_job;
    });
  }

  // Returns whether the run has a tracker.
  absl::StatusOr<bool> ChooseIfOpen(const model::Run& run) {
    ASSIGN_OR_RETURN(const query::RunReport report, query::ReportRun(*reader_, run));
    if (!HasTracker(report)) return false;
    ASSIGN_OR_RETURN(const bool elsewhere, GoesOnElsewhere(run));
    if (elsewhere) return true;
    if (!flags_.runs.empty() || !Settled(report)) chosen_.insert(run.id);
    return true;
  }

  absl::Status Choose() {
    ASSIGN_OR_RETURN(const std::vector<model::Run> runs, NamedRuns());
    const bool named = !flags_.runs.empty();
    uint64_t local = 0;
    for (const model::Run& run : runs) {
      RETURN_IF_ERROR(AddDestination(run));
      if (named) RETURN_IF_ERROR(TryAgain(run));
      ASSIGN_OR_RETURN(const bool has_tracker, ChooseIfOpen(run));
      if (!has_tracker) ++local;
    }
    return SayWhatIsLeftOut(runs.size(), local, named);
  }

  // Adds the destination of --to. Skips runs that have it, and parts of a run whose rank 0 is
  // delivered by another node.
  absl::Status AddDestination(const model::Run& run) {
    const std::string kind = flags_.wandb ? "wandb" : flags_.to;
    if (kind.empty() || run.local_only) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader_->Deliveries(run.id));
    for (const model::Delivery& delivery : deliveries) {
      if (delivery.kind == kind) return absl::OkStatus();
    }
    if (pipeline_ == nullptr) return AskDaemonToDeliver(run, kind);
    RETURN_IF_ERROR(pipeline_->CheckCredentials(run, kind));
    return pipeline_->AddDestination(run.id, kind);
  }

  absl::Status TryAgain(const model::Run& run) {
    ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader_->Deliveries(run.id));
    for (const model::Delivery& delivery : deliveries) {
      if (!delivery.set_apart()) continue;
      RETURN_IF_ERROR(pipeline_ == nullptr ? AskDaemonToDeliver(run, delivery.kind)
                                           : pipeline_->TryAgain(run.id, delivery.kind));
    }
    return absl::OkStatus();
  }

  absl::Status AskDaemonToDeliver(const model::Run& run, const std::string& kind) const {
    ASSIGN_OR_RETURN(const DaemonStatus daemon, FindHolder(state_dir_, globals_.address));
    const deliver::CredentialStore keys(
        deliver::CredentialStore::Options::FromEnvironment(state_dir_));
    const absl::StatusOr<std::string> key = FindKey(keys, state_dir_, run, kind);
    std::map<std::string, std::string> credentials;
    if (key.ok()) credentials["WANDB_API_KEY"] = *key;
    const absl::Status added = cli::AddDestination(daemon, run.id, kind, credentials);
    if (absl::IsFailedPrecondition(added) && !key.ok()) return key.status();
    return added;
  }

  static bool Settled(const query::RunReport& report) {
    return std::all_of(report.destinations.begin(), report.destinations.end(),
                       [](const query::DestinationReport& destination) {
                         return !Leaves(destination) || destination.complete;
                       });
  }

  static std::string Staying(uint64_t local, size_t looked_at) {
    return absl::StrCat(local, " of ", Counted(looked_at, "run"), local == 1 ? " stays" : " stay",
                        " on this node only (destination local)");
  }

  absl::Status SayWhatIsLeftOut(size_t looked_at, uint64_t local, bool named) {
    if (local > 0 && named) {
      return absl::FailedPreconditionError(
          absl::StrCat(Staying(local, looked_at), "; use --to wandb to upload"));
    }
    if (local > 0 && !std::exchange(said_local_, true)) {
      std::cout << Staying(local, looked_at)
                << "; run `ranklog sync RUN --to wandb` to upload one\n";
    }
    return absl::OkStatus();
  }

  absl::Status CheckCredentials() const {
    for (const int64_t id : chosen_) {
      ASSIGN_OR_RETURN(const model::Run run, reader_->GetRun(id));
      ASSIGN_OR_RETURN(const query::RunReport report, query::ReportRun(*reader_, run));
      for (const query::DestinationReport& destination : report.destinations) {
        if (Leaves(destination) && !destination.complete) {
          RETURN_IF_ERROR(pipeline_->CheckCredentials(run, destination.kind));
        }
      }
    }
    return absl::OkStatus();
  }

  // Remembers errors from before this command, so that they are not reported as new.
  absl::Status LeaveOldErrors() {
    ASSIGN_OR_RETURN(const std::vector<query::RunReport> reports, Reports());
    for (const query::RunReport& report : reports) {
      for (const query::DestinationReport& destination : report.destinations) {
        errors_[{report.run.id, destination.kind}] = destination.last_error;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<query::RunReport>> Reports() const {
    std::vector<query::RunReport> reports;
    for (const int64_t id : chosen_) {
      ASSIGN_OR_RETURN(const model::Run run, reader_->GetRun(id));
      ASSIGN_OR_RETURN(reports.emplace_back(), query::ReportRun(*reader_, run));
    }
    return reports;
  }

  // Waits until everything is delivered, or nothing has changed for the timeout.
  absl::Status Wait() {
    ProgressBar progress("sync", /*lines=*/true);
    absl::optional<Sum> last;
    absl::Time moved = SteadyNow();
    while (true) {
      if (!file_.InPlace()) {
        return absl::DataLossError(
            absl::StrCat(StorePath(), " was removed or replaced; its undelivered rows are lost"));
      }
      ASSIGN_OR_RETURN(const std::vector<query::RunReport> reports, Reports());
      const Sum sum = SumOf(reports);
      // Once all rows are delivered, the ends of runs remain.
      progress.Update(sum.done, sum.done < sum.total ? sum.total : sum.total + sum.open);
      SayErrors(reports, &progress);
      SayStoreError(&progress);
      if (lock_ != nullptr && storage::StateRequest::Any(state_dir_)) {
        progress.Clear();
        GiveWay();
        last.reset();
      } else if (lock_ == nullptr && gave_way_) {
        RETURN_IF_ERROR(Follow());
      }
      if (last != sum) moved = SteadyNow();
      last = sum;
      const absl::Duration still = SteadyNow() - moved;
      const bool goes_on = flags_.wait && sum.going > 0 && pipeline_ == nullptr &&
                           storage::StateLock::Holder(state_dir_) != 0;
      if (sum.open == 0 && !goes_on && (sum.going == 0 || still > kQuiet)) return absl::OkStatus();
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
    handed_over_ = false;
  }

  // Follows the daemon that took over the store. If that daemon is gone, this process continues by
  // itself.
  absl::Status Follow() {
    if (storage::StateLock::Holder(state_dir_) != 0 || storage::StateRequest::Any(state_dir_)) {
      if (!handed_over_) handed_over_ = HandOver();
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(TakeLock());
    RETURN_IF_ERROR(OpenPipeline());
    return StartPipeline();
  }

  // Passes this process's keys on, because a daemon that a rank starts has only that rank's key.
  // False: the daemon does not answer yet.
  bool HandOver() const {
    const auto reports = Reports();
    if (!reports.ok() || !FindDaemon(state_dir_, globals_.address)) return false;
    for (const query::RunReport& report : *reports) {
      for (const query::DestinationReport& destination : report.destinations) {
        if (!Leaves(destination) || destination.set_apart || !IsOpen(report, destination)) continue;
        // The daemon reports what it lacks.
        AskDaemonToDeliver(report.run, destination.kind).IgnoreError();
      }
    }
    return true;
  }

  std::string StorePath() const { return absl::StrCat(state_dir_, "/", storage::kStoreFile); }

  // Prints each error once, when it is new.
  void SayErrors(const std::vector<query::RunReport>& reports, ProgressBar* progress) {
    for (const query::RunReport& report : reports) {
      for (const query::DestinationReport& destination : report.destinations) {
        std::string& said = errors_[{report.run.id, destination.kind}];
        if (said == destination.last_error) continue;
        said = destination.last_error;
        if (said.empty()) continue;
        progress->Clear();
        std::cerr << NameOf(report.run) << "  " << destination.kind << "  " << Printable(said)
                  << "\n";
      }
    }
  }

  // The same for errors of the store while this process holds it, because no other process reports
  // them.
  void SayStoreError(ProgressBar* progress) {
    const std::string error = pipeline_ == nullptr ? "" : pipeline_->StoreError();
    if (error.empty() == store_error_.empty()) return;
    store_error_ = error;
    progress->Clear();
    if (error.empty()) {
      std::cerr << "the store is writable again\n";
    } else {
      std::cerr << "cannot write the store, retrying: " << Printable(error) << "\n";
    }
  }

  static std::string NameOf(const model::Run& run) {
    return Printable(run.project + ":" + run.run_id);
  }

  // Prints a line for each run and destination. Returns an error unless everything is delivered.
  absl::Status Conclude() {
    pipeline_.reset();
    lock_.reset();
    ASSIGN_OR_RETURN(const std::vector<query::RunReport> reports, Reports());
    uint64_t unfinished = 0;
    for (const query::RunReport& report : reports) {
      for (const query::DestinationReport& destination : report.destinations) {
        if (!Leaves(destination)) continue;
        const std::string left = WhatIsLeft(report, destination);
        std::cout << NameOf(report.run) << "  " << destination.kind << "  "
                  << destination.delivered_rows << " of " << report.run.rows << " rows delivered"
                  << ReplayedText(destination) << left << "\n";
        if (!left.empty()) ++unfinished;
      }
    }
    if (unfinished == 0) return absl::OkStatus();
    if (!store_error_.empty()) {
      return absl::UnavailableError(
          absl::StrCat("cannot write the store: ", Printable(store_error_),
                       "\nundelivered rows stay in the store; the next sync continues"));
    }
    return absl::UnavailableError(
        "not all rows are delivered; undelivered rows stay in the store; the next sync continues");
  }

  std::string WhatIsLeft(const query::RunReport& report,
                         const query::DestinationReport& destination) const {
    std::string left;
    if (destination.refused_rows > 0) {
      absl::StrAppend(&left, ", ", destination.refused_rows, " refused (see `ranklog dead ",
                      NameOf(report.run), "`)");
    }
    if (IsOpen(report, destination)) {
      absl::StrAppend(&left, destination.pending_rows > 0
                                 ? absl::StrCat(", ", destination.pending_rows, " left")
                                 : ", the run's end is not delivered");
      if (!destination.last_error.empty()) {
        absl::StrAppend(&left, ": ", Printable(destination.last_error));
      }
    } else if (report.run.state == model::RunState::kRunning &&
               storage::StateLock::Holder(state_dir_) == 0) {
      absl::StrAppend(&left,
                      ", but the run has not ended; start ranklogd, which reads the spools of its "
                      "ranks and ends it");
    }
    return left;
  }

  const Globals& globals_;
  const SyncFlags& flags_;
  absl::Duration timeout_;
  std::string state_dir_;
  std::unique_ptr<storage::StoreReader> reader_;
  FileIdentity file_;                         // the store that `reader_` has open
  std::unique_ptr<storage::StateLock> lock_;  // null: a daemon holds the store and delivers
  std::unique_ptr<SyncPipeline> pipeline_;    // set only with `lock_`
  bool gave_way_ = false;                     // the store was passed to a daemon that started later
  bool handed_over_ = false;                  // the keys were passed to that daemon
  std::set<std::string> tried_spools_;        // spools that could not be read are not tried again
  std::set<int64_t> chosen_;
  bool said_local_ = false;
  std::string store_error_;  // the error that was printed last; empty: no current error
  // The error that was printed last.
  std::map<std::pair<int64_t, std::string>, std::string> errors_;
};

absl::Status RunSync(const Globals& globals, const SyncFlags& flags) {
  return Sync(globals, flags).Run();
}

}  // namespace

void AddSync(Program& program) {
  auto [options, flags] = program.Add("sync", "deliver all waiting rows", kSyncFooter, RunSync);
  options.Add("RUN", &flags.runs, query::kRunHelp);
  options.Add("--project", &flags.project, "only runs of this project", {.type = "NAME"});
  options.Add("--to", &flags.to, "also deliver to this tracker", {.one_of = {"wandb"}});
  options.Add("--wandb", &flags.wandb, "the same as --to wandb", {.excludes = "--to"});
  options.Add("--wait", &flags.wait, "also wait until the runs have ended");
  options.Add("--slurm-job", &flags.slurm_job,
              "with --wait: ignore running runs of other Slurm jobs", {.type = "ID"});
  options.Add("--timeout", &flags.timeout, "give up after this time without progress; default 2m",
              {.type = "DURATION", .check = CheckDuration});
}

}  // namespace ranklog::cli
