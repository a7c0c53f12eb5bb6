// The state of a run from the store, for users and programs.

#ifndef SERVICE_QUERY_RUN_REPORT_H_
#define SERVICE_QUERY_RUN_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::query {

// The destination of a run that stays on this node.
inline constexpr char kLocal[] = "local";

// Totals over all streams of the rank.
struct RankReport {
  uint32_t rank = 0;
  std::string node;
  uint64_t rows = 0;        // durable rows
  uint64_t items = 0;       // durable items, without those of console lines
  uint64_t lost_items = 0;  // lost with an earlier store, or unreadable
  model::Losses losses;
  uint64_t late_rows = 0;  // arrived after their step was closed: in the store, but not in the run
  uint64_t replayed_rows = 0;  // logged again, starting from a checkpoint
  std::string unnamed;         // why a live ring of the rank is not a file; empty: all are files
  std::string unread;  // how the rank ended, if its ring could not be read completely; else empty
};

struct DestinationReport {
  std::string kind;
  uint64_t delivered_rows = 0;
  uint64_t pending_rows = 0;
  uint64_t refused_rows = 0;
  uint64_t pending_items = 0;  // config, summary and definitions; a merged one counts as several
  // Not sent, because the tracker already has their steps from another node. These four counts add
  // up to the run's rows.
  uint64_t replayed_rows = 0;
  // The files of artifacts and of the run that the destination lacks. Bytes that it has of a file
  // are not among them.
  uint64_t pending_files = 0;
  uint64_t pending_file_bytes = 0;
  bool complete = false;   // the run's end is delivered too
  std::string last_error;  // for users, see ErrorText()
  bool set_apart = false;  // not tried, because it crashes the process that tries
  std::string url{};       // of the run's page; empty: not known yet, or none
};

// A run that is a part: how far the daemon of rank 0's node has it. The counts are at most 10 s old
// while it runs, and exact once it is complete. `rows` are those joined, late and waiting.
struct JoinedReport {
  uint64_t rows = 0;      // of this node's ranks
  uint64_t joined = 0;    // are there
  uint64_t late = 0;      // came there after their step was closed, or will not: the run had ended
  bool complete = false;  // nothing waits, and all late rows are known

  uint64_t waiting() const { return rows - joined - late; }
};

struct RunReport {
  model::Run run;
  std::vector<RankReport> ranks;                // ascending
  std::vector<DestinationReport> destinations;  // in the order of the run's settings
  model::Losses losses;                         // over all ranks
  uint64_t in_spools = 0;  // rows that only spools have; ReportRun() leaves it 0
  std::string stopped;  // why the daemon cannot aggregate rows; empty: it can, or it is not running
  // Of a run of rank 0 under `main`: the job's ranks, and those of its newest attempt that have
  // attached here. Else 0.
  uint32_t world_size = 0;
  uint32_t heard_ranks = 0;
  absl::optional<JoinedReport> joined{};  // nullopt: it is not joined across nodes
};

// "20 of 20 rows joined those of rank 0"; empty if it is not joined.
std::string JoinedText(const RunReport& report);

// "4 of 8 ranks have attached"; empty if all have.
std::string HeardText(const RunReport& report);

// ", 5 replayed"; empty if no row is replayed.
std::string ReplayedText(const DestinationReport& destination);

// "3 files, 1.2 GiB"; empty if the destination lacks none.
std::string UploadsText(const DestinationReport& destination);

// Whether the destination waits for rows, or for the end of a run that has ended.
bool IsOpen(const RunReport& report, const DestinationReport& destination);

// Whether the destination waits for action by a person, as deliver::AwaitsPerson() reads its error.
// Other errors, and an unreachable tracker, may go away without help.
bool AwaitsPerson(const RunReport& report, const DestinationReport& destination);

// Why the store's daemon cannot aggregate rows, by the run's id in the store.
using StoppedRuns = std::map<int64_t, std::string>;
absl::StatusOr<RunReport> ReportRun(storage::StoreReader& reader, const model::Run& run,
                                    const StoppedRuns& stopped = {});
// All runs, newest first.
absl::StatusOr<std::vector<RunReport>> ReportRuns(storage::StoreReader& reader,
                                                  const StoppedRuns& stopped = {});

// Why the destination does not accept the run's rows, with the run's id in the commands.
std::string ErrorText(const RunReport& report, const DestinationReport& destination);
// The reasons for which runs wait, in the order of `reports`: each reason with its runs.
std::vector<std::pair<std::string, std::vector<std::string>>> WaitingReasons(
    const std::vector<RunReport>& reports, const std::string& kind);
// The same as text: "REASON (run a, b and 3 more)", one element per reason. Empty: no run waits.
std::vector<std::string> WaitingTexts(const std::vector<RunReport>& reports,
                                      const std::string& kind);

// All loss counters by name.
model::Json LossesJson(const model::Losses& losses);
// The reasons for which rows are lost: "ring_full 2, step_behind 1".
std::string LossesText(const model::Losses& losses);
// "3 values left out of rows"; empty if there are none.
std::string ValuesText(const model::Losses& losses);

// Ranks whose rings are not files, by reason: "ranks 0, 1 and 2 of RUN: REASON". Their rows are
// lost if a rank ends while no daemon holds its ring.
std::vector<std::string> UnnamedTexts(const RunReport& report);

// "5 rows of RUN are only in spools"; empty if the store has all.
std::string InSpoolsText(const RunReport& report);

// "run RUN is stopped: WHY". For a run that is stopped.
std::string StoppedText(const RunReport& report);

// For ranks whose rings could not be read completely: "rows may be missing (number unknown): REASON
// (run RUN)".
std::vector<std::string> UnreadTexts(const RunReport& report);

// The object of `ranklog runs --json`, an interface for scripts.
model::Json ToJson(const RunReport& report);

}  // namespace ranklog::query

#endif  // SERVICE_QUERY_RUN_REPORT_H_
