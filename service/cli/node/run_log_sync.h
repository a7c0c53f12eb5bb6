// Imports the `.wandb` logs of one run, and delivers it.

#ifndef SERVICE_CLI_NODE_RUN_LOG_SYNC_H_
#define SERVICE_CLI_NODE_RUN_LOG_SYNC_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/import/log_import.h"
#include "service/import/run_logs.h"
#include "service/query/run_report.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {

// The run has a state directory of its own, which stays: so it is known what its tracker has. Call
// Start(), Poll() until it returns true, and End(). Not thread-safe.
class RunLogSync {
 public:
  struct Options {
    imports::Target target;
    std::string kind;                                   // of the destination
    model::DestinationSettings destination_settings{};  // with the URL of its server
    std::string credentials_dir{};                      // for keys, beside their usual places
    bool live = false;                                  // follow the last log until its exit
    absl::Duration timeout = absl::Minutes(2);          // give up after this time without progress
  };

  // The parts of one run, the oldest first. Its state directory lies in `root`.
  RunLogSync(const std::string& root, std::vector<imports::RunLog> logs, Options options);

  const std::string& state_dir() const { return state_dir_; }
  const imports::Target& target() const { return options_.target; }
  const std::vector<imports::RunLog>& logs() const { return logs_; }
  uint64_t bytes() const;  // of all logs
  // The state directory has an earlier import of the run.
  bool IsKnown() const;

  // Imports the logs and delivers meanwhile. `on_progress` is called with the bytes read so far; false: stop.
  //   kCancelled           `on_progress` returned false
  //   kAlreadyExists       another process syncs the run
  //   kFailedPrecondition  there is no key for the server, or the parts are not in their order
  absl::Status Start(const std::function<bool(uint64_t)>& on_progress);
  // Looks once; takes what was added to a live log. True: it is over, for one of these reasons: all
  // is delivered, or nothing has moved for the timeout.
  absl::StatusOr<bool> Poll();
  // Stops. Marks the logs as synced if all of them has arrived; `notes` gets what the user should
  // know. OK if all has arrived.
  absl::Status End(std::vector<std::string>* notes);

  // As of the last Poll() or End().
  const query::RunReport& report() const { return report_; }
  bool HasReport() const { return report_.run.id != 0; }
  double Progress() const;  // from 0 to 1

 private:
  struct Part {
    std::unique_ptr<imports::LogImport> import;
    bool ended = false;
  };
  absl::Status BeginPart(const imports::RunLog& log);
  // The last step of the run at its server, if the part continues the run there; else -1.
  absl::StatusOr<int64_t> LastStepBefore(const imports::RunLog& log,
                                         const imports::LogImport& import) const;
  // Imports a few MB more. False: there is nothing new.
  absl::StatusOr<bool> ReadMore(Part& part);
  absl::Status ReadPart(Part& part, const std::function<bool(uint64_t)>& on_progress);
  absl::Status EndPart(Part& part);
  absl::Status ReadReport();
  bool AllArrived() const;
  void Mark(const imports::RunLog& log, std::vector<std::string>* notes) const;

  const std::vector<imports::RunLog> logs_;
  const Options options_;
  const std::string state_dir_;
  std::unique_ptr<storage::StateLock> lock_;
  std::unique_ptr<SyncPipeline> pipeline_;
  std::unique_ptr<storage::StoreReader> reader_;
  std::vector<Part> parts_;
  int64_t run_ = 0;
  query::RunReport report_;
  std::vector<uint64_t> moved_;  // figures that change if anything moves
  absl::Time moved_at_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_RUN_LOG_SYNC_H_
