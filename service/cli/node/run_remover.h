// Removes runs from the store.

#ifndef SERVICE_CLI_NODE_RUN_REMOVER_H_
#define SERVICE_CLI_NODE_RUN_REMOVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/cli/node/daemon_status.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store.h"

namespace ranklog::cli {

// Uses the daemon that holds the store. Without a daemon, this process holds the store meanwhile.
class RunRemover {
 public:
  // `address` is the daemon's; empty: a standard address.
  //   kUnavailable  another process holds the store, and no daemon answers
  static absl::StatusOr<std::unique_ptr<RunRemover>> Open(const std::string& state_dir,
                                                          const std::string& address);

  // Removes a run, given by its id in the store.
  //   kFailedPrecondition  the run may not be removed, or was removed already
  //   kUnimplemented       the daemon's version does not support it
  absl::Status Remove(int64_t run, storage::Removal removal);

  // Frees the space of the removed runs. A daemon does that by itself, gradually.
  absl::Status Sweep();

 private:
  RunRemover() = default;
  template <typename Do>
  absl::Status Write(Do write);

  DaemonStatus daemon_;  // holds the store, unless `store_` is set
  std::unique_ptr<storage::StateLock> lock_;
  std::unique_ptr<storage::Store> store_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_RUN_REMOVER_H_
