// What a tracker shows: a run, made of the sessions of a job by its log strategy.

#ifndef SERVICE_MODEL_RUN_H_
#define SERVICE_MODEL_RUN_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "service/model/ordered_object.h"
#include "service/model/session.h"

namespace ranklog::model {

// A config or summary value, or an object of them. Holds NaN and infinities and tells integers from
// floats; keeps the order of keys. Stored as CBOR, never by dump(), which would turn NaN into null.
using Json = nlohmann::basic_json<OrderedObject>;

// How charts and the summary treat a metric.
struct MetricDefinition {
  std::string name;  // a trailing * makes it a glob
  std::string step_metric;
  bool step_sync = true;
  bool hidden = false;
  std::vector<std::string> summary;  // of min max mean last first best none
  std::string goal;                  // "", minimize, maximize

  friend bool operator==(const MetricDefinition&, const MetricDefinition&) = default;
};

// What Config(), Summary() and DefineMetric() of a rank send. Applying one twice is harmless.
struct Update {
  enum class Kind { kConfig = 1, kSummary = 2, kMetric = 3 };
  Kind kind = Kind::kConfig;
  Json object;  // kConfig, kSummary: merged by top-level key
  // kSummary: rows of this step and above came later, those below before.
  int64_t before_step = std::numeric_limits<int64_t>::max();
  MetricDefinition metric;  // kMetric
};

// An update as it lies in the store.
struct StoredUpdate {
  int64_t id = 0;
  int64_t stream = 0;
  int64_t time_us = 0;
  Update update;
};

// One of the jobs that the starts under one given id made, as far as a new session asks. "The rank"
// is the session's; "other processes" are not of the session's Init().
struct JobStart {
  std::string job_id;
  bool exists = false;       // it has runs, or had some that were removed
  bool refused = false;      // its rows are kept here only, since `resume` did not allow the start
  bool live = false;         // a stream of it is live
  bool has_ring = false;     // the session's ring is here
  bool has_process = false;  // another ring of the session's Init() is here
  bool has_rank = false;     // another process of the rank was here
  bool rank_alive = false;   // one of those lives
  bool rank_finished = false;   // the last of those has finished
  bool rank_in_launch = false;  // one of those was of the session's launch
  uint32_t rank_restart = 0;    // the launcher's restart that the last of those belonged to
  int64_t alive_pid = 0;        // of the one that lives
  bool has_launch = false;      // the session's launch is here
  bool has_node = false;        // another launch of the session's node is here
  bool has_batch_job = false;   // the session's step of its batch job is here
  bool has_batch = false;       // any step of it is
  uint32_t requeue = 0;         // the last one of that step here
  // Nobody can see who started this one's ranks and the session's. They may be one launch: all of
  // these have finished well, and one began within a minute of the session, in as large a world.
  bool may_be_one = false;
};

// The job that a session belongs to; made by aggregate::ChooseJob.
struct JobChoice {
  std::string job_id;    // empty: a new one, {id}-2 or the next that is free
  bool refused = false;  // `resume` does not allow this start: its rows are kept on this node
  std::string notice{};  // for the user; {run} stands for the new job's id
  bool warns = false;    // the notice is a warning

  friend bool operator==(const JobChoice&, const JobChoice&) = default;
};

// Which run a session belongs to; made by aggregate::Assign.
struct RunAssignment {
  std::string run_id;
  std::string name;
  uint32_t primary_rank = 0;
  bool primary = false;  // this session's rows are the run's
  bool local_only = false;
  bool primary_chosen = true;  // as Run's
  int64_t run = 0;             // the store's id of a run that is there; 0: find it by run_id
  // As JobChoice's.
  bool refused = false;
  std::string notice{};
  bool warns = false;

  friend bool operator==(const RunAssignment&, const RunAssignment&) = default;
};

// A run of a session's job, as far as the log strategy asks. "Here" is on the session's node.
struct JobRun {
  int64_t id = 0;  // the store's
  std::string run_id;
  uint32_t primary_rank = 0;
  bool local_only = false;
  bool primary_chosen = true;
  uint32_t ranks = 0;        // that have attached to it here
  uint32_t lowest_rank = 0;  // of those
  bool live = false;         // it is running, and has a stream from here
  bool has_ring = false;     // it has a stream of the session's ring
  bool has_rank = false;     // it has a stream of the session's rank from here
  bool has_place = false;    // and that had the same local rank, of as many
  bool of_start = false;     // it has a stream from here of the session's start
};

inline constexpr size_t kMaxIdBytes = 128;  // trackers refuse longer ids

// `id`, a dash and `number`. Where that is longer than kMaxIdBytes, the end of `id` is cut, and a
// mark of the whole `id` stands in its place: two ids stay two. It depends on nothing else, so every
// daemon comes to the same.
std::string WithNumber(absl::string_view id, uint64_t number);

// Whether a run that is to be called `wanted` may have got this id: `wanted` itself, or, where
// another run had that, the first of WithNumber(wanted, 2), WithNumber(wanted, 3), ... that was free.
bool IsNumbered(absl::string_view run_id, absl::string_view wanted);
// Adds to a notice what the user should know of a run with a number, and returns true; nothing of
// one that is called as its job and its primary rank say.
bool AddNumberNotice(absl::string_view job_id, absl::string_view run_id, uint32_t primary_rank,
                     std::string* notice);

enum class RunState { kRunning, kFinished, kFailed, kCrashed };
absl::string_view Name(RunState state);  // running, finished, failed, crashed
absl::optional<RunState> ParseRunState(absl::string_view name);

// A run as the store keeps it.
struct Run {
  int64_t id = 0;      // the store's
  int64_t job = 0;     // the store's
  std::string run_id;  // as the tracker knows it
  std::string name;
  std::string project;
  RunSettings settings;       // of the job, as its first session gave them
  uint32_t primary_rank = 0;  // whose rows these are
  bool local_only =
      false;  // a part of a `main` run whose rank 0 is on another node: kept, not delivered
  // False: the node's first rank is not known yet, so `run_id`, `name` and `primary_rank` will
  // change. Until then no row of the run is made, and nobody is told of it (`local_only`).
  bool primary_chosen = true;
  RunState state = RunState::kRunning;
  int32_t exit_code = 0;
  std::string reason;    // why it crashed
  std::string notice;    // what the user should know of the start that made it; empty: nothing
  bool refused = false;  // `resume` did not allow that start
  // All starts of it here are to go on in a run that is there: it must be at the tracker.
  bool must_be_there = false;
  uint64_t rows = 0;       // made so far: the next row's index
  int64_t last_step = -1;  // of the last row made, replays included: the last step closed
  // A run that is continued is rewound where the newest attempt of its primary rank logs a step
  // again: see Rewind.
  uint64_t replays = 0;        // made so far: rows at or below the furthest step
  int64_t furthest_step = -1;  // the largest that a row has
  uint32_t attempt = 1;        // of the last row made
  int64_t step_base = 0;       // in this attempt, of rows that were logged without a step
  uint64_t late_rows = 0;      // of ranks, that came after their step was closed
  uint64_t replayed_rows = 0;  // of ranks, that they logged again from a checkpoint on
  int64_t started_us = 0;      // Unix time
  int64_t ended_us = 0;        // 0: it has not
};

// Where the newest attempt goes on from a smaller step: what was made before, of this step and
// above, is no part of the run from then on. Local readers pass it over. A tracker that cannot take
// rows back keeps it, and gets no replays.
struct Rewind {
  int64_t first_step = 0;
  uint64_t rows = 0;  // of the run and of its replays, that had been made
  uint64_t replays = 0;
};

enum class StreamState { kLive, kFinished, kCrashed };

// A rank's stream as the store keeps it.
struct Stream {
  int64_t id = 0;
  int64_t run = 0;       // the run that it belongs to
  bool primary = false;  // its rows are the run's; else only statistics come from it
  StreamKey key;         // as the rank calls it: its job id is the one that was given
  std::string job_id;    // of the job that it belongs to: key.job_id, or {key.job_id}-2 ...
  std::string run_id;    // of its run; empty while that run's primary is not chosen
  std::string notice;    // what the user should know of its start; empty: nothing
  bool warns = false;    // that is a warning
  bool refused = false;  // `resume` did not allow its start
  Identity identity;
  Launch launch;
  uint64_t durable_seq = 0;     // rows up to this one are here
  uint64_t aggregated_seq = 0;  // rows up to this one are in their run, or late
  int64_t passed_step = -1;  // no row with a step up to this one will come, by the rank's own word
  StreamState state = StreamState::kLive;
  int32_t exit_code = 0;
  std::string reason;  // why it crashed; while it is live, why its ring is no file, if it is none
  Losses losses;
  // Counts the times that the run was begun: one more for a rank that attaches once its streams and
  // those of the primary rank have ended.
  uint32_t attempt = 1;
  bool began_anew = false;  // in an attempt in which its rank had ended
  int64_t begun_step = -1;  // the run's last when it began
  uint64_t late_rows = 0;
  uint64_t replayed_rows = 0;  // of a primary: in a replay, one for each
  // Of a primary: they share the row of their step with another one, or have no metrics.
  int64_t merged_rows = 0;
  // What its rows without a step are counted from; 0 in the first attempt, and once it has given
  // a step. Known once rows of it are used.
  int64_t step_base = 0;
  int64_t init_us = 0;  // when its process called Init(), by its own clock; 0: unknown
  int64_t started_us = 0;
  int64_t ended_us = 0;
};

// What the reason of a stream says whose rank left rows, as nobody knows how many, that are not in
// the store.
inline constexpr absl::string_view kSpoolUnread = "; its spool could not be read";
bool SpoolIsUnread(const Stream& stream);

// How far one destination has come with a run.
struct Delivery {
  int64_t run = 0;
  std::string kind;             // "wandb", "local"
  uint64_t delivered_rows = 0;  // rows [0, delivered_rows) are there; always all of them for local
  uint64_t refused_rows = 0;    // set apart in the dead-letter table
  bool complete = false;        // the run's end is there too
  std::string last_error;       // empty: the last exchange went well
  Json place;  // what the backend needs to go on at the same place, e.g. its line offset
  // Crashes in a row of processes that were at this delivery, and the version of the last one.
  // PutDelivery() leaves these as they are.
  uint32_t crashes = 0;
  std::string crashed_version;

  // Nobody tries it, since it crashes whoever does.
  bool set_apart() const { return crashes >= kSetApart; }
  static constexpr uint32_t kSetApart = 2;
};

// What a backend would not take.
struct DeadLetter {
  // Enough to recognize a record, whatever its size.
  static constexpr size_t kMaxContent = 64 << 10;

  int64_t id = 0;
  int64_t run = 0;
  std::string kind;
  uint64_t row = 0;  // its index in the run
  int64_t time_us = 0;
  std::string answer;   // of the backend
  std::string content;  // what was refused, shortened to kMaxContent bytes
};

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_RUN_H_
