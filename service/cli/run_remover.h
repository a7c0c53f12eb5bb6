// Takes runs out of the store, whoever has it.

#ifndef SERVICE_CLI_RUN_REMOVER_H_
#define SERVICE_CLI_RUN_REMOVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/cli/daemon_status.h"
#include "service/storage/store.h"

namespace ranklog::cli {

// By the daemon that has the store; without one, by this process, which has it then.
class RunRemover {
 public:
  // `address` of the daemon; empty: at a usual one.
  //   kUnavailable  somebody has the store, and no daemon answers
  static absl::StatusOr<std::unique_ptr<RunRemover>> Open(const std::string& state_dir,
                                                          const std::string& address);

  //   kFailedPrecondition  it may not go, or has gone
  //   kUnimplemented       the daemon's version cannot do that
  absl::Status Remove(int64_t run, storage::Removal removal);

  // Frees what the removed runs held; a daemon does so by itself, by and by.
  absl::Status Sweep();

 private:
  RunRemover() = default;
  template <typename Do>
  absl::Status Write(Do write);

  DaemonStatus daemon_;  // has the store, unless `store_`
  std::unique_ptr<storage::StateLock> lock_;
  std::unique_ptr<storage::Store> store_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_RUN_REMOVER_H_
