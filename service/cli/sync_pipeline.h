// The daemon's pipeline behind its ingest, for `ranklog sync` where no daemon runs.

#ifndef SERVICE_CLI_SYNC_PIPELINE_H_
#define SERVICE_CLI_SYNC_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/deliver/credentials.h"
#include "service/pipeline/aggregate_loop.h"
#include "service/pipeline/deliver_loop.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/store.h"

namespace ranklog::cli {

// The key for a run's tracker: empty where that needs none. The message of an error says where keys
// may be put.
absl::StatusOr<std::string> FindKey(const deliver::CredentialStore& credentials,
                                    const std::string& state_dir, const model::Run& run,
                                    const std::string& kind);

// What the loops log, goes there: errors only. Before any of them runs.
void LogToStderr();

// Makes rows of what the ranks have sent, and delivers the chosen runs, until it is destroyed. The
// caller holds the state directory's lock meanwhile.
class SyncPipeline {
 public:
  // Opens the store, and starts nothing yet. The errors are those of storage::Store::Open.
  static absl::StatusOr<std::unique_ptr<SyncPipeline>> Open(const std::string& state_dir);
  ~SyncPipeline();

  // Gives a run another destination; tried once. Before Start().
  //   kResourceExhausted  the disk is full
  absl::Status AddDestination(int64_t run, const std::string& kind);

  // A delivery that is set apart is tried once more. Before Start(); the errors are those above.
  absl::Status TryAgain(int64_t run, const std::string& kind);

  // Whether the key for this run's tracker is there; the errors are FindKey's.
  absl::Status CheckCredentials(const model::Run& run, const std::string& kind) const;

  // Starts to deliver `runs`; the others stay as they are.
  absl::Status Start(std::set<int64_t> runs);

  // Why nothing can be stored, which is tried again each second; empty: it can.
  std::string StoreError() const;

 private:
  absl::Status Write(const std::function<absl::Status(storage::Store&)>& write);
  SyncPipeline(std::string state_dir, std::unique_ptr<storage::Store> store);

  const std::string state_dir_;
  deliver::CredentialStore credentials_;
  std::unique_ptr<storage::Store> unused_;  // until Start()
  std::unique_ptr<pipeline::StoreLoop> store_;
  std::unique_ptr<pipeline::DeliverLoop> deliver_;
  std::unique_ptr<pipeline::AggregateLoop> aggregate_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SYNC_PIPELINE_H_
