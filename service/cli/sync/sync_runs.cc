#include "service/cli/sync/sync_runs.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "service/base/clock.h"
#include "service/base/file_identity.h"
#include "service/base/status_macros.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/sync/sync_report.h"
#include "service/cli/sync/sync_spools.h"
#include "service/deliver/credentials.h"
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

class Sync {
 public:
  Sync(const Globals& globals, const std::string& state_dir, const RunSyncFlags& flags)
      : globals_(globals),
        flags_(flags),
        state_dir_(state_dir),
        spools_(globals, state_dir),
        choice_(flags.choice),
        destinations_(globals, state_dir, flags.destinations, flags.choice.runs.size()),
        report_(globals, state_dir) {}

  absl::Status Run() {
    globals_.WarnOfOtherDaemon(state_dir_);
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
      if (still > flags_.timeout) return absl::OkStatus();
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
  const RunSyncFlags& flags_;
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

}  // namespace

absl::Status SyncRuns(const Globals& globals, const RunSyncFlags& flags) {
  ASSIGN_OR_RETURN(const std::string state_dir, globals.StateDir());
  return Sync(globals, state_dir, flags).Run();
}

}  // namespace ranklog::cli
