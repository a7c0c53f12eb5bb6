#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/run_remover.h"
#include "service/cli/node/spools/spool_files.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/terminal.h"
#include "service/query/run_report.h"
#include "service/query/select_run.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr char kRemoveFooter[] = R"(
Removes a run from this node's store, with its ranks' rows, its refused records, and the rest of its spools. Data
at a tracker is not removed. A running run is never removed. A run with undelivered rows needs --force, and these
rows are lost; so does a run whose rows wait for rank 0's node.

Asks first on a terminal; otherwise --yes is required. With --yes, the beginning of an id is not enough. If one of
several runs cannot be removed, none is.

Examples:
  ranklog rm llama-lr3e-4
  ranklog rm gpt:abc123 gpt:def456 --yes
  ranklog rm latest --yes --force      # also undelivered rows)";

struct RemoveFlags {
  std::vector<std::string> runs;
  std::string project;
  bool yes = false;
  bool force = false;
  bool json = false;
};

class RunRemoval {
 public:
  RunRemoval(const Globals& globals, const RemoveFlags& flags) : globals_(globals), flags_(flags) {}

  absl::Status Run() {
    if (!flags_.yes && isatty(STDIN_FILENO) != 1) {
      return WrongUsage("--yes is required if stdin is not a terminal");
    }
    ASSIGN_OR_RETURN(state_dir_, globals_.StateDir());
    ASSIGN_OR_RETURN(reader_, globals_.OpenStore());
    RETURN_IF_ERROR(Choose());
    for (const query::RunReport& report : chosen_) RETURN_IF_ERROR(CheckMayGo(report));
    if (!flags_.yes && !Ask()) return absl::CancelledError("nothing was removed");
    ASSIGN_OR_RETURN(remover_, RunRemover::Open(state_dir_, globals_.address));
    absl::Status status;
    for (size_t i = 0; status.ok() && i < chosen_.size(); ++i) status = Remove(chosen_[i]);
    if (flags_.json) std::cout << PrettyJson(removed_);
    RETURN_IF_ERROR(status);
    return remover_->Sweep();
  }

 private:
  absl::Status Choose() {
    ASSIGN_OR_RETURN(const std::vector<model::Run> all, reader_->Runs());
    std::set<int64_t> ids;
    for (const std::string& text : flags_.runs) {
      ASSIGN_OR_RETURN(model::Run run, query::SelectRun(all, text, flags_.project));
      if (flags_.yes && !query::NamesWholeRun(run, text)) {
        return absl::InvalidArgumentError(
            absl::StrCat("with --yes, RUN must be a whole id: '", Printable(text),
                         "' is only the beginning of ", Printable(run.run_id)));
      }
      if (!ids.insert(run.id).second) continue;
      ASSIGN_OR_RETURN(run, AwaitEnd(globals_, *reader_, run));
      ASSIGN_OR_RETURN(chosen_.emplace_back(), query::ReportRun(*reader_, run));
    }
    return absl::OkStatus();
  }

  absl::Status CheckMayGo(const query::RunReport& report) const {
    if (report.run.state == model::RunState::kRunning) {
      return absl::FailedPreconditionError(
          absl::StrCat("run ", NameOf(report), " is still running; nothing was removed",
                       storage::StateLock::Holder(state_dir_) != 0
                           ? ""
                           : "; if its ranks have ended, start ranklogd: it reads their spools and "
                             "ends the run"));
    }
    for (const query::DestinationReport& destination : report.destinations) {
      if (flags_.force || !WaitsFor(report, destination)) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "run ", NameOf(report), ": ", WaitingText(destination), "; nothing was removed; run `",
          globals_.Command("sync " + NameOf(report)), "` to deliver it, or use --force"));
    }
    if (!flags_.force && WaitingForHome(report) > 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "run ", NameOf(report), ": ", Counted(WaitingForHome(report), "row"),
          " not yet sent to rank 0's node; nothing was removed; `", globals_.Command("status"),
          "` shows why, while ranklogd is running; or use --force"));
    }
    return absl::OkStatus();
  }

  bool Ask() const {
    for (const query::RunReport& report : chosen_) {
      std::cerr << NameOf(report) << "  " << Printable(report.run.name) << ", "
                << model::Name(report.run.state) << ", " << Counted(report.run.rows, "row")
                << ", started " << TimeText(report.run.started_us);
      if (!IsAtATracker(report)) std::cerr << ", on this node only";
      for (const query::DestinationReport& destination : report.destinations) {
        if (WaitsFor(report, destination)) std::cerr << ", " << WaitingText(destination);
      }
      std::cerr << "\n";
    }
    std::cerr << "Remove " << (chosen_.size() == 1 ? "this run" : "these runs")
              << " from this node? [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    const std::string word = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
    return word == "y" || word == "yes";
  }

  absl::Status Remove(const query::RunReport& report) {
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader_->Streams(report.run.id));
    std::set<uint64_t> incarnations;
    for (const model::Stream& stream : streams) incarnations.insert(stream.key.incarnation);
    const absl::Status removed =
        remover_->Remove(report.run.id, flags_.force ? storage::Removal::kWhateverWaits
                                                     : storage::Removal::kNothingWaits);
    if (absl::IsFailedPrecondition(removed)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "run ", NameOf(report), " was not removed: it is running again, or being delivered; ",
          "try again when `", globals_.Command("runs"), "` shows it ended and delivered"));
    }
    RETURN_IF_ERROR(removed);
    RemoveRings(state_dir_, incarnations);
    uint64_t waiting = WaitingForHome(report);
    for (const query::DestinationReport& destination : report.destinations) {
      waiting = std::max(waiting, destination.pending_rows);
    }
    if (flags_.json) {
      removed_.push_back({{"run_id", report.run.run_id},
                          {"project", report.run.project},
                          {"name", report.run.name},
                          {"rows", report.run.rows},
                          {"undelivered_rows", waiting}});
    } else {
      std::cout << "removed " << NameOf(report) << ", " << Counted(report.run.rows, "row") << "\n";
    }
    return absl::OkStatus();
  }

  static bool WaitsFor(const query::RunReport& report,
                       const query::DestinationReport& destination) {
    return destination.kind != query::kLocal && IsOpen(report, destination);
  }
  static uint64_t WaitingForHome(const query::RunReport& report) {
    return report.joined ? report.joined->waiting() : 0;
  }
  static std::string WaitingText(const query::DestinationReport& destination) {
    return absl::StrCat(destination.pending_rows > 0
                            ? Counted(destination.pending_rows, "row") + " not delivered"
                            : "its end is not delivered",
                        " to ", Printable(destination.kind));
  }
  static bool IsAtATracker(const query::RunReport& report) {
    return std::any_of(report.destinations.begin(), report.destinations.end(),
                       [](const query::DestinationReport& destination) {
                         return destination.kind != query::kLocal;
                       });
  }
  static std::string NameOf(const query::RunReport& report) {
    return Printable(report.run.project + ":" + report.run.run_id);
  }

  const Globals& globals_;
  const RemoveFlags& flags_;
  std::string state_dir_;
  std::unique_ptr<storage::StoreReader> reader_;
  std::vector<query::RunReport> chosen_;
  std::unique_ptr<RunRemover> remover_;
  model::Json removed_ = model::Json::array();
};

absl::Status RemoveRuns(const Globals& globals, const RemoveFlags& flags) {
  return RunRemoval(globals, flags).Run();
}

}  // namespace

void AddRemove(Program& program) {
  auto [options, flags] =
      program.Add("rm", "remove runs from this node's store", kRemoveFooter, RemoveRuns);
  options.Add("RUN", &flags.runs, query::kRunHelp, {.required = true});
  options.Add("--project", &flags.project, "consider only the runs of this project",
              {.type = "NAME"});
  options.Add("--yes", &flags.yes, "do not ask");
  options.Add("--force", &flags.force, "also remove undelivered rows, which are lost");
  options.Add("--json", &flags.json, "print an array of the removed runs, for programs");
}

}  // namespace ranklog::cli
