// What the store knows of a run, put together for people and programs.

#ifndef SERVICE_CLI_RUN_REPORT_H_
#define SERVICE_CLI_RUN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/model/run.h"
#include "service/storage/store.h"

namespace ranklog::cli {

struct RankReport {
  uint32_t rank = 0;
  uint64_t rows = 0;  // durable, over all the rank's streams
  uint64_t lost = 0;  // refused by Log(), for whatever reason
};

struct DestinationReport {
  std::string kind;
  uint64_t delivered_rows = 0;
  uint64_t pending_rows = 0;
  uint64_t refused_rows = 0;  // delivered + pending + refused = the run's rows
  bool complete = false;      // the run's end is there too
  std::string last_error;
};

struct RunReport {
  model::Run run;
  std::vector<RankReport> ranks;                // ascending
  std::vector<DestinationReport> destinations;  // in the order of the run's settings
  model::Losses losses;                         // over all ranks
};

absl::StatusOr<RunReport> ReportRun(storage::StoreReader& reader, const model::Run& run);
// Of all runs, newest first.
absl::StatusOr<std::vector<RunReport>> ReportRuns(storage::StoreReader& reader);

// As `ranklog runs --json` has it, an interface to scripts.
model::Json ToJson(const RunReport& report);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_RUN_REPORT_H_
