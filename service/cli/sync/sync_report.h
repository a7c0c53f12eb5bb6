// The output of `ranklog sync` while it waits and at its end.

#ifndef SERVICE_CLI_SYNC_SYNC_REPORT_H_
#define SERVICE_CLI_SYNC_SYNC_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/cli/node/globals.h"
#include "service/cli/output/progress_bar.h"
#include "service/query/run_report.h"

namespace ranklog::cli {

// Whether the rows leave this node: the destination is a tracker.
bool IsTracker(const query::DestinationReport& destination);

// The progress of all chosen runs together.
struct SyncProgress {
  uint64_t done = 0;  // rows that do not wait, over all destinations
  uint64_t total = 0;
  uint64_t files = 0;  // that must still be uploaded, over all destinations, and their bytes
  uint64_t file_bytes = 0;
  uint64_t open = 0;   // active destinations that lack rows or the run's end
  uint64_t going = 0;  // runs that have not ended

  friend bool operator==(const SyncProgress&, const SyncProgress&) = default;
};

SyncProgress ProgressOf(const std::vector<query::RunReport>& reports);

// The bar of a sync. The uploads count from the most that was open at once.
class UploadProgress {
 public:
  void Show(const SyncProgress& sync, ProgressBar* progress);

 private:
  uint64_t files_ = 0;
  uint64_t bytes_ = 0;
};

// Prints each error once, when it is new, and at the end a line for each run and destination.
class SyncReport {
 public:
  // `globals` must outlive this object.
  SyncReport(const Globals& globals, std::string state_dir)
      : globals_(globals), state_dir_(std::move(state_dir)) {}

  // Remembers errors from before this command, so that they are not reported as new.
  void IgnoreOldErrors(const std::vector<query::RunReport>& reports);
  void PrintErrors(const std::vector<query::RunReport>& reports, ProgressBar* progress);
  // The same for errors of the store while this process holds it, because no other process reports
  // them. `error` is empty if the store can be written.
  void PrintStoreError(const std::string& error, ProgressBar* progress);

  // Prints a line for each run and destination. Returns an error unless everything is delivered.
  absl::Status Conclude(const std::vector<query::RunReport>& reports) const;

 private:
  std::string WhatIsLeft(const query::RunReport& report,
                         const query::DestinationReport& destination) const;

  const Globals& globals_;
  const std::string state_dir_;
  std::string store_error_;  // the error that was printed last; empty: no current error
  // By run and destination: the error that was printed last.
  std::map<std::pair<int64_t, std::string>, std::string> errors_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SYNC_SYNC_REPORT_H_
