// Records every row that was logged, and checks what became of it.

#ifndef TESTS_SIMULATION_ORACLE_H_
#define TESTS_SIMULATION_ORACLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"
#include "tests/simulation/tracker.h"
#include "tests/support/wandb_server.h"

namespace ranklog::simulation {

// A metric that every ring logs now and then. The statistics over ranks are computed from it. If
// several rows share a step, the line has the value of the last one.
inline constexpr char kShared[] = "shared";
// A metric that the first ring of every rank logs once per step.
inline constexpr char kLoss[] = "loss";

// One row as given to Log().
struct LoggedRow {
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<std::pair<std::string, std::string>> texts;
};

// An artifact, or a file of the run, whose files were staged.
struct LoggedUpload {
  std::string artifact;                           // its name; empty: a file of the run
  std::string id;                                 // of an artifact; also its alias
  std::map<std::string, std::string> files;       // bytes by path
  std::map<std::string, std::string> references;  // addresses by path
  bool damaged = false;                           // a staged file was cut before the daemon read it
};

// One item as given to the ring: a config or summary value, the definition of "loss", or an upload.
struct LoggedItem {
  std::string key;  // empty: the definition
  int64_t value = 0;
  std::shared_ptr<const LoggedUpload> upload{};  // null: none
};
inline constexpr char kUploadKey[] = "upload";  // of all uploads

// One ring, from its creation to the end of its rank.
struct RingRecord {
  uint32_t node = 0;
  uint32_t rank = 0;
  uint32_t thread = 0;
  uint64_t incarnation = 0;
  uint64_t process = 1;  // number of the process among those of its rank
  uint64_t start = 0;   // number of the start among the starts of its node that have their own runs
  uint32_t rings = 1;   // of the process
  bool counts = false;  // its steps continue from the run's last step
  // Ages of the world: when the rank first knew that the daemon had this ring, and at the end of
  // its process.
  absl::Duration known = absl::InfiniteDuration();
  absl::Duration ended = absl::InfiniteDuration();
  std::vector<LoggedRow> rows;  // rows for which Log() returned true, in order
  uint64_t refused = 0;
  std::vector<LoggedItem> items;  // items that were taken, in order
  uint64_t refused_items = 0;
  uint64_t acknowledged = 0;        // rows that the daemon acknowledged as durable
  uint64_t acknowledged_items = 0;  // the same for items
  bool end_acknowledged = false;
  bool finished = false;  // Finish() was called
  int32_t exit_code = 0;
  bool ended_before_next = false;  // the daemon saw its end before the rank's next process began
  bool lost_with_node = false;     // power cut: only acknowledged rows count

  // The key that identifies this ring's rows; its value is the row's seq. Rows that share a step
  // need different keys (`part`), since one line holds them all.
  std::string Key(size_t part) const;
  // This ring's keys in the config or the summary; it sets them to growing numbers, in turn.
  static constexpr int64_t kKeys = 3;
  std::string ConfigKey(int64_t value) const;
  std::string SummaryKey(int64_t value) const;
  // The path of a file of the run; this ring saves two, again and again.
  std::string RunFile(uint64_t number) const;
  // The value of a key after the first `count` items; -1: none.
  int64_t ValueOf(const std::string& key, uint64_t count) const;
  // The number of items that must be in the store.
  uint64_t due_items() const { return lost_with_node ? acknowledged_items : items.size(); }
};

// A run that was delivered and removed, and a state directory with a copy of the store that still
// has it.
struct Removed {
  std::string state_dir;
  model::Run run;
};

class Oracle {
 public:
  // The address of a ring's record never changes.
  RingRecord* AddRing(uint32_t rank, uint32_t thread, uint64_t incarnation);
  const std::vector<std::unique_ptr<RingRecord>>& rings() const { return rings_; }

  int64_t LastStep() const;  // of all logged rows

  // The ranks of the job, which the home joins; 0: the nodes are not joined.
  uint32_t joined_ranks = 0;
  bool one_launcher = false;  // of all nodes; else one for each
  // Only the clocks were wrong, so no row may be late.
  bool expect_no_late_rows = false;

  // The job continues at the second node, whose store feeds the same runs.
  bool moves = false;
  bool disk_fails = false;  // so a new process need not have waited for the rows of dead ones
  // The job is resumed at the second node, after the steps that the tracker has by then.
  bool resumed_elsewhere = false;
  // Reads the final content of a node's store. Call it for all nodes before Judge().
  void Know(uint32_t node, storage::StoreReader& reader, const Tracker& tracker);

  // Returns what is wrong with a node once everything should be delivered; empty if nothing is.
  std::vector<std::string> Judge(uint32_t node, storage::StoreReader& reader,
                                 const std::vector<Removed>& removed, const Tracker& tracker);
  // Returns what is wrong with the streams that the home has from other nodes. Nodes in `gone`
  // never sent the rest. Call it after Know() for all nodes.
  std::vector<std::string> JudgeJoined(const std::set<uint32_t>& gone);

 private:
  using Line = std::map<std::string, std::string>;  // values as written, by key
  void JudgeStream(storage::StoreReader& reader, const model::Run& run,
                   const model::Stream& stream);
  void JudgeRaw(storage::StoreReader& reader, const model::Stream& stream, const RingRecord& ring);
  void JudgeItems(storage::StoreReader& reader, const model::Stream& stream,
                  const RingRecord& ring);
  void JudgeLines(const model::Run& run, const model::Stream& stream, const RingRecord& ring);
  void JudgeRow(const RingRecord& ring, uint64_t seq, const Line& line);
  void JudgeRun(uint32_t node, storage::StoreReader& reader, const model::Run& run,
                const Tracker& tracker);
  bool HeardSeparately(const model::Stream& stream,
                       const std::vector<model::Stream>& streams) const;
  void JudgeEnd(const model::Run& run, const std::vector<model::Stream>& streams);
  void JudgeAtTracker(uint32_t node, storage::StoreReader& reader, const model::Run& run,
                      const std::vector<model::Stream>& streams, const Tracker& tracker);
  // Makes the lines of a run that has no tracker.
  void MakeLines(storage::StoreReader& reader, const model::Run& run);
  static std::vector<Line> LinesOf(storage::StoreReader& reader, const model::Run& run);
  void FindRows();
  static std::map<std::string, std::vector<size_t>> RowsIn(const std::vector<Line>& lines);
  static void MakeLine(const model::Block& block, size_t row,
                       const std::vector<std::vector<std::string>>& shapes, Line* line);
  void ReadLines(storage::StoreReader& reader, const model::Run& run,
                 const testing::WandbServer::Run& shown);
  // Whether this store's config, summary and end are the ones to expect, for a run that several
  // stores feed.
  bool Continues(uint32_t node, const model::Run& run) const;
  size_t LineOf(const model::DeadLetter& letter, const Line& content) const;
  void KeepLinesOf(uint32_t node, const model::Run& run);
  void FindReplays(storage::StoreReader& reader, const model::Run& run, const Tracker& tracker);
  // In oracle_uploads.cc.
  void JudgeUploads(storage::StoreReader& reader, const model::Run& run,
                    const std::vector<model::Stream>& streams, const Tracker& tracker);
  void JudgeArtifact(const LoggedUpload& upload, const model::Run& run, bool due,
                     const std::string& letters, const Tracker& tracker);
  void JudgeRunFiles(const RingRecord& ring, const model::Run& run, const std::string& letters,
                     const Tracker& tracker);
  void JudgeConfig(const std::vector<model::Stream>& streams,
                   const testing::WandbServer::Run& shown);
  void JudgeSummary(const std::vector<model::Stream>& streams, const model::Delivery& delivery,
                    const testing::WandbServer::Run& shown);
  // In oracle_attempts.cc: a run whose primary rank restarted.
  void ReadReplays(storage::StoreReader& reader, const model::Run& run);
  void JudgeAttempts(const model::Run& run, const std::vector<model::Stream>& streams);
  bool BeganAfterEnds(uint32_t rank, uint64_t process) const;
  bool AttachedAfterEnds(const model::Stream& stream,
                         const std::vector<model::Stream>& streams) const;
  void JudgeVisible(const model::Run& run, const std::vector<const RingRecord*>& primary);
  // Uses the store's rewinds. Returns the step from which rows are hidden, for a row made when
  // there were `made` rows.
  int64_t HiddenFrom(uint64_t made, uint64_t model::Rewind::*rows) const;
  int64_t StepInRun(const RingRecord& ring, const LoggedRow& row) const;
  // In oracle_joined.cc.
  void KnowStreams(uint32_t node, storage::StoreReader& reader, const model::Run& run);
  void JudgeStart(const model::Stream& stream, const RingRecord& ring);
  void JudgeStreamOfPeer(storage::StoreReader& reader, const model::Stream& stream,
                         const RingRecord& ring);
  // In oracle_statistics.cc.
  using ByStep = std::map<int64_t, std::vector<double>>;
  bool Joins(const model::Run& run) const { return joined_ranks > 0 && !run.local_only; }
  std::map<uint32_t, ByStep> ValuesByRank(const std::string& metric,
                                          const std::vector<model::Stream>& streams) const;
  struct StepOfRun {
    absl::Duration
        since;  // when the daemon first knew the latest of the run's rings with this step
    bool continued = false;  // one of these rings is not the run's first one
  };
  std::map<int64_t, StepOfRun> StepsOfRun(const std::vector<model::Stream>& streams) const;
  bool IsRemembered(const StepOfRun& known, const std::string& metric, uint32_t rank, int64_t step,
                    const std::vector<model::Stream>& streams) const;
  using Choices = std::vector<std::pair<uint32_t, std::vector<double>>>;  // values by rank
  Choices ChoicesFor(const std::string& metric, const model::Run& run, const Line& line,
                     const std::map<uint32_t, ByStep>& by_rank);
  void JudgeStatistics(const std::string& metric, const model::Run& run,
                       const std::vector<model::Stream>& streams);
  Line SummaryOfLines() const;
  Line SummaryOfLoss() const;
  const RingRecord* RingOf(const model::Stream& stream) const;
  template <typename... Parts>
  void Wrong(const Parts&... parts) {
    if (wrong_.size() < 20) wrong_.push_back(absl::StrCat(parts...));
  }

  std::vector<std::unique_ptr<RingRecord>> rings_;
  std::vector<std::string> wrong_;
  // rows with a line, by run id and node
  std::map<std::string, std::map<uint32_t, uint64_t>> rows_;
  // For a run that was resumed at another node: the tracker's last step at that time, and the rows
  // that are therefore not sent.
  struct Resumed {
    int64_t last_step = -1;
    std::vector<Line> replays;
  };
  std::map<std::string, Resumed> resumed_;  // by run id
  // If the nodes are joined, by incarnation: the streams of other nodes there and at home.
  std::map<uint64_t, model::Stream> parts_;
  std::map<uint64_t, model::Stream> at_home_;
  std::set<uint64_t> home_starts_;  // whose rank 0 is known at home
  // The lines of the run being judged, with dead letters at their positions.
  std::vector<Line> lines_;
  std::map<std::string, std::vector<size_t>> found_;  // by key=value of the rings' keys
  std::vector<Line> replays_;                         // of the same run, as stored
  std::map<std::string, std::vector<size_t>> replayed_;
  std::vector<model::Rewind> rewinds_;
  // The offset of a process's steps in the run, by rank and process.
  std::map<std::pair<uint32_t, uint64_t>, int64_t> step_bases_;
  std::map<uint64_t, const RingRecord*> seen_;  // by incarnation; has a stream
  std::map<uint32_t, uint64_t> last_process_;   // by rank, of rings with a stream
  std::map<std::string, uint64_t> starts_;      // by job id, at the judged node
  std::map<uint64_t, std::string> job_of_start_;
  // Streams of other nodes in a job of the judged node.
  std::map<std::string, std::vector<model::Stream>> peers_of_;
  // The offset of the steps of another rank's first process, or of another node's, by incarnation.
  std::map<uint64_t, int64_t> other_bases_;
};

// Splits a flat JSON object into texts: numbers as written; strings unescaped, after a quote.
// Returns false if it is not a flat JSON object.
bool ParseLine(const std::string& line, std::map<std::string, std::string>* members);

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_ORACLE_H_
