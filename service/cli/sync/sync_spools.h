// Drains the spools of dead ranks into the store, for `ranklog sync`.

#ifndef SERVICE_CLI_SYNC_SYNC_SPOOLS_H_
#define SERVICE_CLI_SYNC_SYNC_SPOOLS_H_

#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/cli/node/globals.h"
#include "service/cli/node/spools/unread_spools.h"

namespace ranklog::cli {

class SyncSpools {
 public:
  using Counts = absl::FunctionRef<bool(const UnreadSpool& spool)>;

  // `globals` must outlive this object.
  SyncSpools(const Globals& globals, std::string state_dir)
      : globals_(globals), state_dir_(std::move(state_dir)) {}

  // Whether a rank has ended since the last Take() and left a spool.
  bool AnyNew() const;

  // Stores the rows of dead ranks if this process holds the lock of the state directory. Otherwise
  // waits for the daemon that holds the store, or is starting, to store them.
  absl::Status Take(bool holds_lock);

  // Fails if rows are left in a spool that counts, because they are not delivered.
  absl::Status CheckAllTaken(Counts counts) const;

 private:
  // Fails if there are rings that no daemon takes, and names them.
  absl::Status CheckNoneIsStranded(Counts counts) const;
  // Fails if a live rank has rows and no daemon reads them. Waits a moment first, because a rank
  // that has just started starts a daemon.
  absl::Status CheckDaemonOfLiveRanks(Counts counts) const;

  const Globals& globals_;
  const std::string state_dir_;
  std::set<std::string> tried_;  // spools that could not be read are not tried again
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SYNC_SYNC_SPOOLS_H_
