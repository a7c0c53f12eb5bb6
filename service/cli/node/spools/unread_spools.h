// Rows that are in no run yet. They are in the rings of ranks, or in the store but not yet
// aggregated.

#ifndef SERVICE_CLI_NODE_SPOOLS_UNREAD_SPOOLS_H_
#define SERVICE_CLI_NODE_SPOOLS_UNREAD_SPOOLS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "service/cli/node/globals.h"
#include "service/model/run.h"
#include "service/model/session.h"
#include "service/query/run_report.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {

// How long a command waits for a daemon to take the rings of dead ranks. The daemon scans for rings
// every 3 s, and waits a little before it reads one.
inline constexpr absl::Duration kDaemonTakes = absl::Seconds(10);

struct UnreadSpool {
  std::string path;
  model::StreamKey key;  // the rank that owns the ring
  uint64_t rows = 0;     // rows that the store lacks; 0: it lacks only the rank's end
  bool lives = false;    // its rank is alive, and sends the rows once a daemon answers
  int64_t run = 0;       // the store's id of its run; 0: not known before it attaches
};

// Rings that a daemon of `state_dir` has not read yet: those of dead ranks, and those of live ranks
// whose rows the store lacks. While a daemon runs, live ranks have such rows only briefly, and dead
// ranks for some seconds.
std::vector<UnreadSpool> FindSpools(const Globals& globals, const std::string& state_dir);

// The same, but only rings of dead ranks.
std::vector<UnreadSpool> FindSpoolsOfDeadRanks(const Globals& globals,
                                               const std::string& state_dir);

// The same as FindSpools(). Empty if a daemon holds `state_dir` or listens where the ranks look for
// their daemon, because it will read the rings.
std::vector<UnreadSpool> FindUnreadSpools(const Globals& globals, const std::string& state_dir);

// The same as FindSpools(), but whichever daemon would read them.
std::vector<UnreadSpool> FindAllSpools(const std::string& state_dir);

// Those of `spools` that hold data of `run`. A ring that never attached counts for every run of
// its job.
absl::StatusOr<std::vector<UnreadSpool>> SpoolsOfRun(const std::vector<UnreadSpool>& spools,
                                                     storage::StoreReader& reader,
                                                     const model::Run& run);

// Sets RunReport::in_spools. `spools` must have been found before the reports were made. While a
// daemon holds `state_dir` and does not hang, rows of live ranks do not count: each rank has some
// on their way to it.
absl::Status CountRowsInSpools(const Globals& globals, const std::string& state_dir,
                               std::vector<UnreadSpool> spools, storage::StoreReader& reader,
                               absl::Span<query::RunReport> reports);

// Whether a daemon with another state directory listens where the daemon of `state_dir` would. That
// daemon reads the rings. Do not call it if the daemon of `state_dir` hangs.
bool AnotherDaemonReadsSpools(const Globals& globals, const std::string& state_dir);

// The last row of a ring that the store has; 0 if `store` is null. nullopt: the store has all
// `rows` and the stream's end.
absl::optional<uint64_t> StoredThrough(storage::StoreReader* store, const model::StreamKey& key,
                                       uint64_t rows);

// "rank 0 of gpt:job", safe for a terminal.
std::string RankName(const model::StreamKey& key);

// The number of rows in these spools.
uint64_t UnreadRows(const std::vector<UnreadSpool>& left);

// For dead ranks: "300 rows of rank 0 of gpt:job are only in a spool". For live ranks: "rank 0 of
// gpt:job is still running; 300 rows wait in its spool for a daemon". `left` must not be empty.
std::string UnreadSpoolsText(const std::vector<UnreadSpool>& left);

// Advice: the command that stores these rows.
std::string UnreadSpoolsAdvice(const Globals& globals, const std::string& state_dir,
                               const std::vector<UnreadSpool>& left);

// "20 rows of job and job-2 are stored, but not in their runs yet", if no daemon holds `state_dir`
// that would aggregate them. Only of the runs `only`, if given. Empty: there are no such rows.
std::string UnaggregatedRowsText(const std::string& state_dir,
                                 const absl::optional<std::set<int64_t>>& only = absl::nullopt);
// Advice: the command that aggregates these rows.
inline std::string HowToAggregate(const Globals& globals) {
  return "no daemon is running; run `" + globals.Command("sync") +
         "` to aggregate and deliver them";
}

// Warns on stderr about spools and rows for which no daemon runs, and Globals::WarnOfOtherDaemon().
void WarnOfUnreadRows(const Globals& globals);

// Does the work of a starting daemon: stores the rows of the rings in `state_dir`, ends their
// streams, and aggregates the rows. Creates the store if it is missing. The caller must hold the
// lock. Unreadable rings stay in place. The errors are those of storage::Store::Open.
absl::Status DrainUnreadSpools(const Globals& globals, const std::string& state_dir);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_SPOOLS_UNREAD_SPOOLS_H_
