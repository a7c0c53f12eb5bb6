// The data of `ranklog status`: the daemon, the store, and rows that wait for delivery.

#ifndef SERVICE_CLI_STATUS_OVERVIEW_H_
#define SERVICE_CLI_STATUS_OVERVIEW_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_log_place.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/disk_outlook.h"
#include "service/cli/node/spools/stranded_spools.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/query/run_report.h"

namespace ranklog::cli {

// A disk that is full within this time is a problem.
inline constexpr absl::Duration kSoon = absl::Hours(24);

struct Overview {
  Globals globals;  // how the command was called, for the commands in messages
  std::string state_dir;
  int64_t store_bytes = 0;
  int64_t content_bytes = 0;                     // of large items that are not in the store yet
  int64_t used_bytes = 0;                        // without free pages
  int64_t daemon_pid = 0;                        // 0: no daemon
  std::string silent_at;                         // its address, if it does not answer
  std::string wrong_address;                     // WrongAddressText(), if no daemon was found
  absl::optional<DaemonStatus> daemon;           // its answer, if it could be asked
  absl::optional<DaemonStatus> other;            // FindOtherDaemon()
  absl::optional<DaemonLog> log;                 // if a rank started the daemon
  std::vector<query::RunReport> runs;            // newest first
  std::vector<std::string> set_aside;            // damaged stores that were set aside
  std::map<std::string, storage::Queue> queues;  // by kind of tracker
  std::vector<std::string> damaged_rings;        // paths of rings that were set aside
  DiskOutlook disk;
  std::vector<UnreadSpool> left;  // rows outside the store, for which no daemon runs
  std::string left_advice;
  std::vector<StrandedSpool> stranded;  // only those that wait for a daemon at another address
  std::string unaggregated;  // rows in the store that no daemon aggregates; empty: there are none
  // Sums over all runs.
  std::map<std::string, query::DestinationReport> destinations;
  uint64_t late_rows = 0;
  model::Losses losses;
  uint64_t lost_items = 0;

  uint64_t queued() const { return Sum(&query::DestinationReport::pending_rows); }
  uint64_t delivered() const { return Sum(&query::DestinationReport::delivered_rows); }
  uint64_t refused() const { return Sum(&query::DestinationReport::refused_rows); }
  uint64_t lost() const { return losses.total(); }
  // The waiting rows of all trackers: their bytes, and the time of the oldest row (0: no row
  // waits).
  storage::Queue Queued() const;

 private:
  uint64_t Sum(uint64_t query::DestinationReport::*field) const;
};

// Takes one snapshot. `await_ends`: first waits for runs that are about to end; see AwaitEnds().
absl::StatusOr<Overview> TakeOverview(const Globals& globals, bool await_ends);

// The id of the run with this id in the store; empty if it was removed.
std::string RunIdOf(const Overview& overview, int64_t run);

// The runs that have not ended.
std::vector<const query::RunReport*> LiveRuns(const Overview& overview);

// The rows that wait for a tracker of this kind.
storage::Queue QueueOf(const Overview& overview, const std::string& kind);

// The daemon's figures for a tracker, if a daemon runs.
DaemonStatus::Destination TrackerFiguresOf(const Overview& overview, const std::string& kind);

// The time since `unix_us`. Not negative, even if the clock was set back.
absl::Duration Since(int64_t unix_us);
absl::Duration Uptime(const DaemonStatus& daemon);

// Destinations that are set apart, with their runs.
std::vector<std::pair<const query::RunReport*, const query::DestinationReport*>> SetApart(
    const Overview& overview);

// Returns why the daemon cannot store rows; empty if it can, or if no daemon is running.
std::string StoreTroubleOf(const Overview& overview);

// Describes the state of a daemon that does not answer at its address.
std::string SilenceText(const Overview& overview);

// The problems that --check reports, one sentence each.
std::vector<std::string> ProblemsOf(const Overview& overview);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_STATUS_OVERVIEW_H_
