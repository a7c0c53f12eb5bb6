#include "service/cli/sync/sync_choice.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/cli/sync/sync_report.h"
#include "service/deliver/destination.h"
#include "service/pipeline/job_end/slurm_job.h"
#include "service/query/select_run.h"

namespace ranklog::cli {
namespace {

bool HasTracker(const query::RunReport& report) {
  return std::any_of(report.destinations.begin(), report.destinations.end(), IsTracker);
}

bool Settled(const query::RunReport& report) {
  return std::all_of(report.destinations.begin(), report.destinations.end(),
                     [](const query::DestinationReport& destination) {
                       return !IsTracker(destination) || destination.complete;
                     });
}

std::string Staying(uint64_t local, size_t looked_at) {
  return absl::StrCat(local, " of ", Counted(looked_at, "run"), local == 1 ? " stays" : " stay",
                      " on this node only (destination local)");
}

}  // namespace

absl::StatusOr<std::vector<model::Run>> SyncChoice::Candidates(storage::StoreReader& reader) const {
  ASSIGN_OR_RETURN(std::vector<model::Run> all, reader.Runs());
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

absl::StatusOr<bool> SyncChoice::ChooseIfOpen(storage::StoreReader& reader, const model::Run& run) {
  ASSIGN_OR_RETURN(const query::RunReport report, query::ReportRun(reader, run));
  if (!HasTracker(report)) return false;
  ASSIGN_OR_RETURN(const bool elsewhere, ContinuesElsewhere(reader, run));
  if (elsewhere) return true;
  if (!flags_.runs.empty() || !Settled(report)) chosen_.insert(run.id);
  return true;
}

absl::Status SyncChoice::ReportLocalRuns(const Globals& globals, size_t looked_at,
                                         const std::vector<std::string>& local) {
  if (local.empty()) return absl::OkStatus();
  const std::string staying = Staying(local.size(), looked_at);
  if (AreNamed()) {
    return absl::FailedPreconditionError(
        absl::StrCat(staying, "; use --to ", deliver::UsualDestination().kind(), " to upload"));
  }
  if (!std::exchange(reported_local_, true)) {
    std::cout << staying << "; run `" << globals.UploadCommand(query::RunForCommand(local))
              << "` to upload " << (local.size() == 1 ? "it" : "one") << "\n";
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<query::RunReport>> SyncChoice::Reports(
    storage::StoreReader& reader) const {
  std::vector<query::RunReport> reports;
  for (const int64_t id : chosen_) {
    ASSIGN_OR_RETURN(const model::Run run, reader.GetRun(id));
    ASSIGN_OR_RETURN(reports.emplace_back(), query::ReportRun(reader, run));
  }
  return reports;
}

absl::StatusOr<bool> SyncChoice::ContinuesElsewhere(storage::StoreReader& reader,
                                                    const model::Run& run) const {
  if (flags_.slurm_job.empty() || run.state != model::RunState::kRunning) return false;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  return std::none_of(streams.begin(), streams.end(), [this](const model::Stream& stream) {
    return pipeline::SlurmJobId(stream.launch.batch_job) == flags_.slurm_job;
  });
}

}  // namespace ranklog::cli
