// What `ranklog status` looks at: the daemon, the store, and what waits to be delivered.

#ifndef SERVICE_CLI_OVERVIEW_H_
#define SERVICE_CLI_OVERVIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/cli/command.h"
#include "service/cli/daemon_status.h"
#include "service/cli/disk_outlook.h"
#include "service/cli/left_spools.h"
#include "service/cli/run_report.h"

namespace ranklog::cli {

inline constexpr absl::Duration kSoon = absl::Hours(24);  // a full disk within this is a problem

struct Overview {
  std::string state_dir;
  int64_t store_bytes = 0;
  int64_t used_bytes = 0;                        // of the store, without its free pages
  int64_t daemon_pid = 0;                        // 0: no daemon
  std::string silent_at;                         // its address, where it does not answer
  absl::optional<DaemonStatus> daemon;           // what it said, if it could be asked
  absl::optional<DaemonLog> log;                 // of one that a rank started
  std::vector<RunReport> runs;                   // newest first
  std::vector<std::string> set_aside;            // stores that were damaged
  std::map<std::string, storage::Queue> queues;  // by the kind of the tracker
  std::vector<std::string> damaged_rings;        // paths; set aside, too
  DiskOutlook disk;
  std::vector<LeftSpool> left;  // not in the store, and nobody takes them
  std::string left_advice;
  std::string unmade;  // rows in the store that no daemon brings into their runs; empty: none
  // Sums over the runs.
  std::map<std::string, DestinationReport> destinations;
  uint64_t late_rows = 0;
  model::Losses losses;

  uint64_t queued() const { return Sum(&DestinationReport::pending_rows); }
  uint64_t delivered() const { return Sum(&DestinationReport::delivered_rows); }
  uint64_t refused() const { return Sum(&DestinationReport::refused_rows); }
  uint64_t lost() const { return losses.total(); }
  // What waits, over all trackers: the bytes, and when the oldest row was logged (0: none waits).
  storage::Queue Queued() const;

 private:
  uint64_t Sum(uint64_t DestinationReport::*field) const;
};

// Looks once. `await_ends`: first waits for runs that are about to end; see AwaitEnds().
absl::StatusOr<Overview> TakeOverview(const Globals& globals, bool await_ends);

// Destinations that are set apart, each with its run.
std::vector<std::pair<const RunReport*, const DestinationReport*>> SetApart(
    const Overview& overview);

// Why the daemon cannot store rows; empty: it can, or there is none.
std::string StoreTroubleOf(const Overview& overview);

// What is wrong with a daemon that has an address, and gives no answer there.
std::string SilenceText(const Overview& overview);

// What --check finds, a sentence each.
std::vector<std::string> ProblemsOf(const Overview& overview);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OVERVIEW_H_
