// The runs that `ranklog sync` delivers.

#ifndef SERVICE_CLI_SYNC_SYNC_CHOICE_H_
#define SERVICE_CLI_SYNC_SYNC_CHOICE_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/cli/node/globals.h"
#include "service/model/run.h"
#include "service/query/run_report.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {

// The runs that the user named; if none is named, all runs that are not fully delivered.
class SyncChoice {
 public:
  struct Flags {
    std::vector<std::string> runs;
    std::string project;
    std::string slurm_job;  // if not empty, running runs of other jobs are left out
  };

  explicit SyncChoice(const Flags& flags) : flags_(flags) {}

  // The named runs; if none is named, all runs of the project.
  absl::StatusOr<std::vector<model::Run>> Candidates(storage::StoreReader& reader) const;
  bool AreNamed() const { return !flags_.runs.empty(); }

  // Chooses the run unless it has no tracker, or everything is delivered and it is not named, or it
  // is running under another Slurm job. Returns whether the run has a tracker.
  absl::StatusOr<bool> ChooseIfOpen(storage::StoreReader& reader, const model::Run& run);

  // Prints that the runs `local` of `looked_at` runs have no tracker. An error if they are named.
  absl::Status ReportLocalRuns(const Globals& globals, size_t looked_at,
                               const std::vector<std::string>& local);

  const std::set<int64_t>& chosen() const { return chosen_; }
  // Reports on the chosen runs.
  absl::StatusOr<std::vector<query::RunReport>> Reports(storage::StoreReader& reader) const;

 private:
  absl::StatusOr<bool> ContinuesElsewhere(storage::StoreReader& reader,
                                          const model::Run& run) const;

  const Flags flags_;
  std::set<int64_t> chosen_;
  bool reported_local_ = false;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SYNC_SYNC_CHOICE_H_
