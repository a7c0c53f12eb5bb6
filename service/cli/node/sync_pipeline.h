// The daemon's pipeline without ingest, for `ranklog sync` when no daemon runs.

#ifndef SERVICE_CLI_NODE_SYNC_PIPELINE_H_
#define SERVICE_CLI_NODE_SYNC_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/cli/node/globals.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/pipeline/aggregate_loop.h"
#include "service/pipeline/delivery/deliver_loop.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/store.h"

namespace ranklog::cli {

// The key for a run's tracker; empty if the tracker needs no key. An error message says where to
// put keys.
absl::StatusOr<deliver::Credential> FindKey(const deliver::CredentialStore& credentials,
                                            const std::string& state_dir, const model::Run& run,
                                            const std::string& kind);

// Asks the daemon to deliver a run to a tracker now, with the RANKLOG_ALLOW_HTTP of this process.
// `with_key`: also with its key, which replaces that of the job. `settings` of the tracker are for
// the run's job, and the run has them already.
//   kUnavailable  no daemon answers
absl::Status AskDaemonToDeliver(const Globals& globals, const std::string& state_dir,
                                const model::Run& run, const std::string& kind, bool with_key,
                                const std::map<std::string, std::string>& settings = {});

// Sends the log output of the loops to stderr, errors only. Call it before any loop runs.
void LogToStderr();

// Aggregates the ranks' rows and delivers the chosen runs, until it is destroyed. The caller must
// hold the lock of the state directory during that time.
class SyncPipeline {
 public:
  // Opens the store without starting anything. Keys are also read from `credentials_dir`; empty:
  // from `state_dir`. The errors are those of storage::Store::Open.
  static absl::StatusOr<std::unique_ptr<SyncPipeline>> Open(
      const std::string& state_dir, const std::string& credentials_dir = "");
  ~SyncPipeline();

  // Writes in a transaction, and waits for the commit. After Start(), aggregates the new rows of `run`
  // at once.
  //   kResourceExhausted  the disk is full; after Start() kUnavailable, or it waits
  absl::Status Write(int64_t run, std::function<absl::Status(storage::Store&)> write);

  // Adds a destination to a run. The write is not retried. Call it before Start().
  //   kResourceExhausted  the disk is full
  absl::Status AddDestination(int64_t run, const std::string& kind);

  // Changes settings of a destination for a run; see Store::SetDestination(). Call it before
  // Start().
  absl::Status SetDestination(int64_t run, const std::string& kind,
                              const std::map<std::string, std::string>& settings);

  // Changes the URL of the runs' server at this destination to a valid one. Another spelling of its
  // URL changes nothing. If one run is refused, no run's URL changes. Errors as above.
  absl::Status SetAddress(const std::vector<model::Run>& runs,
                          const deliver::Destination& destination, const std::string& url);

  // Lets a delivery that is set apart be tried once more. Call it before Start(). Errors as above.
  absl::Status TryAgain(int64_t run, const std::string& kind);

  // Whether there is a key for this run's tracker. The errors are those of FindKey().
  absl::Status CheckCredentials(const model::Run& run, const std::string& kind) const;

  // The last step of the run at its tracker; -1: the tracker has no row of it. Errors as of FindKey()
  // and deliver::Destination::LastStep().
  absl::StatusOr<int64_t> LastStep(const model::Run& run, const std::string& kind,
                                   absl::Duration timeout) const;

  // Starts to deliver `runs`. Other runs are not delivered. `waits_for_space`: while the disk is
  // full, writes are retried; otherwise they fail.
  absl::Status Start(std::set<int64_t> runs, bool waits_for_space = true);

  // Returns why the store cannot be written, or an empty string if it can.
  std::string StoreError() const;

 private:
  absl::Status WriteNow(const std::function<absl::Status(storage::Store&)>& write);
  SyncPipeline(std::string state_dir, const std::string& credentials_dir,
               std::unique_ptr<storage::Store> store);

  const std::string state_dir_;
  deliver::CredentialStore credentials_;
  std::unique_ptr<storage::Store> unused_;  // null after Start()
  std::unique_ptr<pipeline::StoreLoop> store_;
  std::unique_ptr<pipeline::DeliverLoop> deliver_;
  std::unique_ptr<pipeline::AggregateLoop> aggregate_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_SYNC_PIPELINE_H_
