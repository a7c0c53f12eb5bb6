// What the store knows of a run, put together for people and programs.

#ifndef SERVICE_CLI_RUN_REPORT_H_
#define SERVICE_CLI_RUN_REPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/cli/daemon_status.h"
#include "service/model/run.h"
#include "service/storage/store.h"

namespace ranklog::cli {

// The destination of a run that stays on this node.
inline constexpr char kLocal[] = "local";

// Over all the rank's streams.
struct RankReport {
  uint32_t rank = 0;
  uint64_t rows = 0;  // durable
  model::Losses losses;
  uint64_t late_rows = 0;      // came after their step was closed: here, but not in the run
  uint64_t replayed_rows = 0;  // logged again from a checkpoint on
  std::string unnamed;         // why a ring of it is no file now; empty: all are, or it has ended
  std::string unread;          // how it ended, if nobody could read all of its ring; else empty
};

struct DestinationReport {
  std::string kind;
  uint64_t delivered_rows = 0;
  uint64_t pending_rows = 0;
  uint64_t refused_rows = 0;
  // The tracker has their steps from another node, so they are not sent; these four together are
  // the run's rows.
  uint64_t replayed_rows = 0;
  bool complete = false;  // the run's end is there too
  std::string last_error;
  bool set_apart = false;  // nobody tries it, since it crashes whoever does
};

struct RunReport {
  model::Run run;
  std::vector<RankReport> ranks;                // ascending
  std::vector<DestinationReport> destinations;  // in the order of the run's settings
  model::Losses losses;                         // over all ranks
  std::string stopped;  // why the daemon can make no rows of what came; empty: it can, or is away
};

// ", 5 replayed"; empty if none is.
std::string ReplayedText(const DestinationReport& destination);

// Whether it waits for rows, or for the end of a run that has ended.
bool IsOpen(const RunReport& report, const DestinationReport& destination);

// Whether it waits for a person: there is no key, the tracker refuses the key or the account (HTTP
// 401, 403), or `resume=must` asks for a run that is not there. What else a tracker answers, and a
// tracker that is away, may be over by itself.
bool AwaitsPerson(const RunReport& report, const DestinationReport& destination);

absl::StatusOr<RunReport> ReportRun(storage::StoreReader& reader, const model::Run& run);
// Of all runs, newest first. `daemon`: that of the store, or null.
absl::StatusOr<std::vector<RunReport>> ReportRuns(storage::StoreReader& reader,
                                                  const DaemonStatus* daemon = nullptr);

// Why runs wait, in the order of `reports`: each reason with the runs that wait for it.
std::vector<std::pair<std::string, std::vector<std::string>>> WaitingReasons(
    const std::vector<RunReport>& reports, const std::string& kind);
// The same for people: "REASON (run a, b and 3 more)", one per line. Empty: nothing waits.
std::vector<std::string> WaitingTexts(const std::vector<RunReport>& reports,
                                      const std::string& kind);

// Losses by the name of their reason, an interface to scripts.
std::vector<std::pair<std::string, uint64_t>> ByReason(const model::Losses& losses);
model::Json LossesJson(const model::Losses& losses);
// Those that are not zero: "ring_full 2, step_behind 1".
std::string LossesText(const model::Losses& losses);
void AddLosses(const model::Losses& more, model::Losses* sum);

// Ranks whose rings are no files, by the reason: "ranks 0, 1 and 2 of RUN: REASON". What they log is
// lost if they end while no daemon holds the ring.
std::vector<std::string> UnnamedTexts(const RunReport& report);

// "run RUN is stopped: WHY", of one that is stopped.
std::string StoppedText(const RunReport& report);

// Ranks whose rings could not be read to their end: "rank 1 of RUN: REASON".
std::vector<std::string> UnreadTexts(const RunReport& report);

// As `ranklog runs --json` has it, an interface to scripts.
model::Json ToJson(const RunReport& report);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_RUN_REPORT_H_
