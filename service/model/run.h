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

// Which run a session belongs to; made by aggregate::Assign.
struct RunAssignment {
  std::string run_id;
  std::string name;
  uint32_t primary_rank = 0;
  bool primary = false;  // this session's rows are the run's
  bool local_only = false;
  bool primary_chosen = true;  // as Run's
  int64_t run = 0;             // the store's id of a run that is there; 0: find it by run_id

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
};

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
  std::string reason;      // why it crashed
  uint64_t rows = 0;       // made so far: the next row's index
  int64_t last_step = -1;  // of the last row made: the last step closed
  uint64_t late_rows = 0;  // of ranks, that came after their step was closed
  int64_t started_us = 0;  // Unix time
  int64_t ended_us = 0;    // 0: it has not
};

enum class StreamState { kLive, kFinished, kCrashed };

// A rank's stream as the store keeps it.
struct Stream {
  int64_t id = 0;
  int64_t run = 0;       // the run that it belongs to
  bool primary = false;  // its rows are the run's; else only statistics come from it
  StreamKey key;
  Identity identity;
  uint64_t durable_seq = 0;     // rows up to this one are here
  uint64_t aggregated_seq = 0;  // rows up to this one are in their run, or late
  int64_t passed_step = -1;  // no row with a step up to this one will come, by the rank's own word
  StreamState state = StreamState::kLive;
  int32_t exit_code = 0;
  std::string reason;
  Losses losses;
  uint64_t late_rows = 0;
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
