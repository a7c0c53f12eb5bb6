// The output of `ranklog sync PATH...` at its end.

#ifndef SERVICE_CLI_SYNC_LOG_SYNC_REPORT_H_
#define SERVICE_CLI_SYNC_LOG_SYNC_REPORT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/cli/node/run_log_sync.h"
#include "service/cli/output/terminal.h"
#include "service/cli/sync/sync_report.h"
#include "service/model/item.h"

namespace ranklog::cli {

// A run with its result.
struct LogJob {
  std::unique_ptr<RunLogSync> sync;
  std::unique_ptr<SyncReport> errors;  // prints those of the delivery when they come
  absl::Status status;
  std::vector<std::string> notes{};
  bool skipped = false;  // it was synced before
};

// A log whose run is not known.
struct UnreadableLog {
  std::string path;
  std::string name;  // of its directory
  absl::Status why;
};

// `jobs` and `unreadable` must outlive this object.
class LogSyncReport {
 public:
  LogSyncReport(const std::vector<LogJob>& jobs, const std::vector<UnreadableLog>& unreadable,
                bool dry_run)
      : jobs_(jobs), unreadable_(unreadable), dry_run_(dry_run) {}

  std::string Table(const Terminal& terminal) const;  // a line for each log
  std::string Json() const;                           // an array of the runs, as in json.md
  // Prints to stderr what the user should know of each run.
  void Explain() const;
  // OK if nothing failed.
  absl::Status Result() const;

 private:
  std::string ResultOf(const LogJob& job) const;
  model::Json ToJson(const LogJob& job) const;

  const std::vector<LogJob>& jobs_;
  const std::vector<UnreadableLog>& unreadable_;
  const bool dry_run_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SYNC_LOG_SYNC_REPORT_H_
