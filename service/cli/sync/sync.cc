#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "ranklog/v1/base_url.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/base/file_identity.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/sync/sync_choice.h"
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
constexpr absl::Duration kEndSoon = absl::Seconds(10);
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
  std::string to;
  std::string base_url;
  std::vector<std::string> set;  // VARIABLE=VALUE
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
    if (!flags_.base_url.empty()) {
      ASSIGN_OR_RETURN(const std::vector<model::Run> all, choice_.Candidates(*reader_));
      RETURN_IF_ERROR(SetAddress(all, TrackerOf(all), flags_.base_url));
    }
    ASSIGN_OR_RETURN(const std::vector<model::Run> runs, choice_.Candidates(*reader_));
    std::vector<std::string> local;
    for (const model::Run& run : runs) {
      RETURN_IF_ERROR(AddDestination(run));
      if (choice_.AreNamed()) RETURN_IF_ERROR(WarnOfVariables(run));
      if (choice_.AreNamed()) RETURN_IF_ERROR(TryAgain(run));
      ASSIGN_OR_RETURN(const bool has_tracker, choice_.ChooseIfOpen(*reader_, run));
      if (!has_tracker) local.push_back(run.run_id);
    }
    return choice_.ReportLocalRuns(globals_, runs.size(), local);
  }

  // A run that was not logged for a destination without a public server has no address of it: it gets
  // the one that a rank would use here; a run that is named alone, also the other settings.
  std::map<std::string, std::string> SettingsFor(const model::Run& run,
                                                 const deliver::Destination& to) const {
    if (!to.AddressOf(run.settings).empty()) return {};
    std::map<std::string, std::string> settings = AddressFor(to);
    if (settings.empty() || flags_.choice.runs.size() != 1) return settings;
    std::map<std::string, std::string> given;
    for (const std::string& name : to.words().other_settings) {
      const std::string variable = to.VariableOf(name);
      given.emplace(variable, EnvironmentVariable(variable.c_str()));
    }
    std::vector<std::string> mistakes;
    settings.merge(to.SettingsOf(given, &mistakes));
    for (const std::string& mistake : mistakes) std::cerr << "ranklog: " << mistake << "\n";
    return settings;
  }

  static std::map<std::string, std::string> AddressFor(const deliver::Destination& to) {
    const std::string& setting = to.words().url_setting;
    if (to.IsDirectory()) {
      const std::string dir = EnvironmentVariable("WANDB_DIR");
      return {{setting,
               std::filesystem::absolute(dir.empty() ? "." : dir).lexically_normal().string()}};
    }
    const std::string url = v1::WithoutUser(
        to.AddressIn([](const std::string& name) { return EnvironmentVariable(name.c_str()); }));
    if (url.empty()) return {};
    return {{setting, to.CheckUrl(url).value_or(url)}};
  }

  absl::Status SetAddress(const std::vector<model::Run>& runs, const deliver::Destination& to,
                          std::string address) {
    if (pipeline_ == nullptr) {
      const int64_t pid = storage::StateLock::Holder(state_dir_);
      return absl::FailedPreconditionError(absl::StrCat(
          "process ", pid, " delivers the runs, so their address cannot change now; ",
          IsDaemon(pid)
              ? absl::StrCat("run `", globals_.Command("stop"), "`, then this command again")
              : "wait until it ends, then run this command again"));
    }
    if (to.IsDirectory()) address = std::filesystem::absolute(address).lexically_normal().string();
    return pipeline_->SetAddress(runs, to, address);
  }

  // That of --to; else the first one that a run goes to.
  const deliver::Destination& TrackerOf(const std::vector<model::Run>& runs) const {
    if (!flags_.to.empty()) return *deliver::FindDestination(flags_.to);
    for (const model::Run& run : runs) {
      for (const std::string& kind : run.settings.destinations) {
        const deliver::Destination* const found = deliver::FindDestination(kind);
        if (found != nullptr) return *found;
      }
    }
    return deliver::UsualDestination();
  }

  static bool Takes(const deliver::Destination& to, const model::Run& run) {
    return !run.local_only || (to.words().takes_all_ranks && run.primary_chosen);
  }

  // Adds the destination of --to. Skips runs that have it, and parts of a run whose rank 0 is
  // delivered by another node, except for a destination that takes these.
  absl::Status AddDestination(model::Run run) {
    if (!flags_.set.empty() && set_.kind.empty()) RETURN_IF_ERROR(ReadSet());
    const std::string& kind = flags_.to.empty() ? set_.kind : flags_.to;
    const deliver::Destination* const to = deliver::FindDestination(kind);
    const bool takes = to == nullptr ? !run.local_only : Takes(*to, run);
    if (kind.empty() || !takes) return absl::OkStatus();
    std::map<std::string, std::string> settings = set_.settings;
    if (to != nullptr) settings.merge(SettingsFor(run, *to));
    ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader_->Deliveries(run.id));
    const bool there = std::any_of(deliveries.begin(), deliveries.end(),
                                   [&](const auto& delivery) { return delivery.kind == kind; });
    if (there && settings.empty()) return absl::OkStatus();
    if (!there && flags_.to.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "run ", Printable(run.run_id), " does not go to ", kind, "; add --to ", kind));
    }
    if (!settings.empty() && run.state == model::RunState::kRunning && !choice_.AreNamed()) {
      std::cerr << "run " << Printable(run.run_id)
                << " is left out: it is still running, and has no "
                << "address of " << kind << "\n";
      return absl::OkStatus();
    }
    if (!settings.empty()) RETURN_IF_ERROR(AwaitEnd(run));
    for (const auto& [name, value] : settings)
      run.settings.destination_settings[kind][name] = value;
    if (pipeline_ == nullptr) {
      RETURN_IF_ERROR(AskDaemonToDeliver(globals_, state_dir_, run, kind, true, settings));
      return CheckTaken(run, kind, settings);
    }
    if (!settings.empty()) RETURN_IF_ERROR(pipeline_->SetDestination(run.id, kind, settings));
    RETURN_IF_ERROR(pipeline_->CheckCredentials(run, kind));
    return pipeline_->AddDestination(run.id, kind);
  }

  // A setting in this shell that differs from that of the ranks, and is not used.
  absl::Status WarnOfVariables(const model::Run& run) const {
    ASSIGN_OR_RETURN(const model::Run stored, reader_->GetRun(run.id));
    ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader_->Deliveries(run.id));
    for (const model::Delivery& delivery : deliveries) {
      const deliver::Destination* const to = deliver::FindDestination(delivery.kind);
      if (to == nullptr) continue;
      for (const std::string& name : to->words().other_settings) {
        const std::string variable = to->VariableOf(name);
        const std::string value = EnvironmentVariable(variable.c_str());
        if (value.empty() || value == stored.settings.Of(to->kind(), name)) continue;
        std::cerr << "ranklog: " << variable << "=" << Printable(value) << " is not used: ";
        if (delivery.cursor.empty()) {
          std::cerr << "its ranks chose where run " << Printable(run.run_id)
                    << " goes; to change that, use --set " << variable << "=VALUE\n";
        } else {
          std::cerr << "run " << Printable(run.run_id) << " is at " << to->words().name
                    << " already, and stays where it is; set the variable for the ranks of a new "
                       "run\n";
        }
      }
    }
    return absl::OkStatus();
  }

  // Settings of a running run cannot change. The daemon ends one a moment after its last rank.
  absl::Status AwaitEnd(const model::Run& run) const {
    for (const absl::Time until = SteadyNow() + kEndSoon; SteadyNow() < until;) {
      ASSIGN_OR_RETURN(const model::Run stored, reader_->GetRun(run.id));
      ASSIGN_OR_RETURN(const query::RunReport report, query::ReportRun(*reader_, stored));
      ASSIGN_OR_RETURN(const bool ends, AnyEndsSoon({report}));
      if (!ends) break;
      absl::SleepFor(kSyncPoll);
    }
    return absl::OkStatus();
  }

  // The settings of --set, which are those of one destination.
  absl::Status ReadSet() {
    for (const std::string& word : flags_.set) {
      const std::pair<std::string, std::string> given =
          absl::StrSplit(word, absl::MaxSplits('=', 1));
      const auto& [variable, value] = given;
      const deliver::Destination* found = nullptr;
      std::string setting;
      for (const auto& to : deliver::AllDestinations()) {
        for (const std::string& name : to->words().other_settings) {
          if (to->VariableOf(name) != variable) continue;
          found = to.get();
          setting = name;
        }
      }
      if (found == nullptr) {
        return WrongUsage(absl::StrCat("--set: ", Printable(variable),
                                       " is not a variable with a setting of a tracker, such as "
                                       "MLFLOW_EXPERIMENT_NAME; for its URL, use --base-url"));
      }
      const std::string& kind = flags_.to.empty() ? set_.kind : flags_.to;
      if (!kind.empty() && found->kind() != kind) {
        return WrongUsage(absl::StrCat("--set: ", variable, " is not a variable of ", kind));
      }
      if (const absl::Status usable = found->CheckSetting(setting, value);
          !usable.ok() && !value.empty()) {
        return WrongUsage(absl::StrCat("--set: ", variable, ": ", usable.message()));
      }
      set_.kind = found->kind();
      set_.settings[setting] = value;
    }
    return absl::OkStatus();
  }

  absl::Status CheckTaken(const model::Run& run, const std::string& kind,
                          const std::map<std::string, std::string>& settings) const {
    ASSIGN_OR_RETURN(const model::Run stored, reader_->GetRun(run.id));
    for (const auto& [name, value] : settings) {
      if (stored.settings.Of(kind, name) == value) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the daemon has an older version, which does not take ", name, "; run `",
                       globals_.Command("stop"), "`, then this command again"));
    }
    return absl::OkStatus();
  }

  absl::Status TryAgain(const model::Run& run) {
    ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader_->Deliveries(run.id));
    for (const model::Delivery& delivery : deliveries) {
      if (!delivery.set_apart()) continue;
      const bool named = !flags_.choice.runs.empty();
      RETURN_IF_ERROR(pipeline_ == nullptr
                          ? AskDaemonToDeliver(globals_, state_dir_, run, delivery.kind, named)
                          : pipeline_->TryAgain(run.id, delivery.kind));
    }
    return absl::OkStatus();
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
        ASSIGN_OR_RETURN(const bool ends, AnyEndsSoon(reports));
        if (!ends) return absl::OkStatus();
      }
      if (goes_on) moved = SteadyNow();
      if (still > timeout_) return absl::OkStatus();
      absl::SleepFor(kSyncPoll);
    }
  }

  // Whether the daemon will soon end one of the runs: its ranks have ended, and the daemon only
  // waits for others that may still attach.
  absl::StatusOr<bool> AnyEndsSoon(const std::vector<query::RunReport>& reports) const {
    if (storage::StateLock::Holder(state_dir_) == 0 || lock_ != nullptr) return false;
    for (const query::RunReport& report : reports) {
      if (report.run.state != model::RunState::kRunning) continue;
      ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader_->Streams(report.run.id));
      const bool any_lives = std::any_of(streams.begin(), streams.end(), [](const auto& stream) {
        return stream.state == model::StreamState::kLive;
      });
      if (!streams.empty() && !any_lives) return true;
    }
    return false;
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
  SyncReport report_;
  std::unique_ptr<storage::StoreReader> reader_;
  FileIdentity file_;                            // the store that `reader_` has open
  std::unique_ptr<storage::StateLock> lock_;     // null: a daemon holds the store and delivers
  std::unique_ptr<SyncPipeline> pipeline_;       // set only with `lock_`
  std::map<int64_t, absl::Status> without_key_;  // runs, with the error that names the server
  struct {
    std::string kind;
    std::map<std::string, std::string> settings;
  } set_;                  // of --set
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
  if (!flags.set.empty()) return WrongUsage("--set is for runs");
  logs.paths = flags.choice.runs;
  logs.to = flags.to;
  logs.base_url = flags.base_url;
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
  if (!flags.base_url.empty() && flags.choice.runs.empty()) {
    return WrongUsage("--base-url needs RUN");
  }
  if (!flags.set.empty() && flags.choice.runs.empty()) return WrongUsage("--set needs RUN");
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
  options.Add("--to", &flags.to, "also deliver to this tracker",
              {.one_of = deliver::DestinationKinds()});
  options.Add(
      "--base-url", &flags.base_url,
      "correct the address of the server of RUN, or the directory of offline runs, if nothing of "
      "its job is delivered yet",
      {.type = "URL"});
  options.Add(
      "--set", &flags.set,
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
