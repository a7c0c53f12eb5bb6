// `ranklog sync [RUN...]`: delivers runs of the store.

#ifndef SERVICE_CLI_SYNC_SYNC_RUNS_H_
#define SERVICE_CLI_SYNC_SYNC_RUNS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/cli/node/globals.h"
#include "service/cli/sync/sync_choice.h"
#include "service/cli/sync/sync_destinations.h"

namespace ranklog::cli {

struct RunSyncFlags {
  SyncChoice::Flags choice;
  SyncDestinations::Flags destinations;
  bool wait = false;
  absl::Duration timeout = absl::Minutes(2);
};

// Waits until the daemon has delivered the chosen runs; without a daemon, delivers them itself.
// Prints the progress, and at the end a line for each run and destination. OK if everything has
// arrived.
absl::Status SyncRuns(const Globals& globals, const RunSyncFlags& flags);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SYNC_SYNC_RUNS_H_
