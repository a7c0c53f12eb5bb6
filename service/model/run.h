// A run: what a tracker shows. The log strategy makes it from the sessions of a job.

#ifndef SERVICE_MODEL_RUN_H_
#define SERVICE_MODEL_RUN_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "service/model/item.h"
#include "service/model/session.h"

namespace ranklog::model {

// A job that was made by starts under one given id, with the facts that a new session needs. "The
// rank" is the session's rank. "Other processes" are processes that do not belong to the session's
// Init().
struct JobStart {
  std::string job_id;
  bool exists = false;          // it has runs, or had runs that were removed
  bool refused = false;         // rows stay on this node, because `resume` did not allow the start
  bool live = false;            // it has a live stream
  bool first_alive = false;     // its rank 0 has a live stream here
  bool has_ring = false;        // it has the session's ring
  bool has_process = false;     // it has another ring of the session's Init()
  bool has_rank = false;        // it has had another process of the rank
  bool rank_alive = false;      // one of these processes is alive
  bool rank_finished = false;   // the last of these processes has finished
  bool rank_in_launch = false;  // one of them belonged to the session's launch
  uint32_t rank_restart = 0;    // the launcher's restart number of the last of them
  int64_t alive_pid = 0;        // of the living process
  bool has_launch = false;      // it has the session's launch
  bool has_node = false;        // it has another launch of the session's node
  bool spans_nodes = false;     // ranks of this daemon and of others belong to one launch
  bool has_batch_job = false;   // it has the session's step of its batch job
  bool has_batch = false;       // it has any step of that batch job
  uint32_t requeue = 0;         // the highest requeue number of that step
  // The launcher is visible neither for this job nor for the session, but both may be one launch.
  // All ranks of this job have finished successfully, one of them began within a minute of the
  // session, and the world sizes are equal.
  bool may_be_one = false;
};

// The job that a session belongs to. Made by aggregate::ChooseJob.
struct JobChoice {
  std::string job_id;    // empty: a new job, {id}-2 or the next free id
  bool refused = false;  // `resume` does not allow this start: its rows stay on this node
  std::string notice{};  // for the user; {run} stands for the new job's id
  bool warns = false;    // the notice is a warning

  friend bool operator==(const JobChoice&, const JobChoice&) = default;
};

// The run that a session belongs to. Made by aggregate::Assign.
struct RunAssignment {
  std::string run_id;
  std::string name;
  uint32_t primary_rank = 0;
  bool primary = false;  // this session's rows are the run's rows
  bool local_only = false;
  bool primary_chosen = true;  // as in Run
  int64_t run = 0;             // the store's id of an existing run; 0: find it by run_id
  // As in JobChoice.
  bool refused = false;
  std::string notice{};
  bool warns = false;

  friend bool operator==(const RunAssignment&, const RunAssignment&) = default;
};

// A run of a session's job, with the facts that the log strategy needs. "Here" means on the
// session's node.
struct JobRun {
  int64_t id = 0;  // the store's id
  std::string run_id;
  uint32_t primary_rank = 0;
  bool local_only = false;
  bool primary_chosen = true;
  uint32_t ranks = 0;        // that have attached to it here
  uint32_t lowest_rank = 0;  // of these ranks
  bool live = false;         // it is running, and has a stream from here
  bool has_ring = false;     // it has a stream of the session's ring
  bool has_rank = false;     // it has a stream of the session's rank from here
  bool has_place = false;    // and that stream had the same local rank and local world size
  bool of_start = false;     // it has a stream from here of the session's start
  bool running = false;
};

inline constexpr size_t kMaxIdBytes = 128;  // trackers refuse longer ids

// Returns `id`, a dash and `number`. If that is longer than kMaxIdBytes, a hash of the whole `id`
// replaces the end of `id`, so that different ids stay different. The result depends only on the
// arguments, so every daemon gets the same one.
std::string WithNumber(absl::string_view id, uint64_t number);

// Whether a run that was to be called `wanted` may have got this id. The id is `wanted`, or, if
// another run had it, the first free one of WithNumber(wanted, 2), WithNumber(wanted, 3), ...
bool IsNumbered(absl::string_view run_id, absl::string_view wanted);
// Adds what the user should know about a run whose id got a number, and returns true. Adds nothing
// if the id is the usual one of its job and primary rank.
bool AddNumberNotice(absl::string_view job_id, absl::string_view run_id, uint32_t primary_rank,
                     std::string* notice);

enum class RunState { kRunning, kFinished, kFailed, kCrashed };
absl::string_view Name(RunState state);  // running, finished, failed, crashed

// A run in the store.
struct Run {
  int64_t id = 0;      // the store's id
  int64_t job = 0;     // the store's id of its job
  std::string run_id;  // the tracker's id of the run
  std::string name;
  std::string project;
  RunSettings settings;       // of the job: storage/tables.md
  uint32_t primary_rank = 0;  // the rank whose rows these are
  // Part of a `main` run whose rank 0 is on another node. Delivered only to destinations for all ranks.
  bool local_only = false;
  // False: the node's first rank is not known yet, so `run_id`, `name` and `primary_rank` will
  // change. Until then no row of the run is made, and it is not delivered (`local_only`).
  bool primary_chosen = true;
  RunState state = RunState::kRunning;
  int32_t exit_code = 0;
  std::string reason;    // why it crashed
  std::string notice;    // a message for the user about the start that made it; may be empty
  bool refused = false;  // `resume` did not allow that start
  // All its starts on this node had to continue an existing run, so the run must exist at the
  // tracker.
  bool must_be_there = false;
  uint64_t rows = 0;       // made so far; also the next row's index
  int64_t last_step = -1;  // the last closed step: that of the last row made, replays included
  // A continued run is rewound if the newest attempt of its primary rank logs a step again: see
  // Rewind.
  uint64_t replays = 0;        // made so far; rows at or below furthest_step
  int64_t furthest_step = -1;  // the largest step of any row
  uint32_t attempt = 1;        // of the last row made
  int64_t step_base = 0;       // offset of rows without a step, in this attempt
  uint64_t late_rows = 0;      // rows of ranks that came after their step was closed
  uint64_t replayed_rows = 0;  // rows of ranks that were logged again after a checkpoint
  int64_t last_item = 0;       // the store's id of the newest item of its streams; 0: none
  uint64_t samples = 0;        // of system metrics, taken so far
  int64_t started_us = 0;      // Unix time
  int64_t ended_us = 0;        // 0: not ended
};

// A point where the newest attempt continues from a smaller step. Earlier rows at this step and
// above no longer belong to the run. Local readers skip them. A tracker that cannot take rows back
// keeps them, and gets no replays.
struct Rewind {
  int64_t first_step = 0;
  uint64_t rows = 0;  // rows and replays of the run that existed at this point
  uint64_t replays = 0;
};

enum class StreamState { kLive, kFinished, kCrashed };

// Whether the daemon of rank 0's node has a stream of another node.
enum class Joined {
  kOpen,   // not all of it, or it is not known which of its rows are late
  kWhole,  // all rows, and the end
  kLate,   // the run had ended there, so the rows after Stream::joined_seq are in no row of it
};

// A rank's stream in the store.
struct Stream {
  int64_t id = 0;
  int64_t run = 0;       // the run that it belongs to
  bool primary = false;  // its rows are the run's rows; else it gives only statistics
  StreamKey key;         // from the rank: its job id is the given one
  std::string job_id;    // of its job: key.job_id, or {key.job_id}-2 ...
  std::string run_id;    // of its run; empty until the run's primary rank is chosen
  std::string notice;    // a message for the user about its start; may be empty
  bool warns = false;    // the notice is a warning
  bool refused = false;  // `resume` did not allow its start
  Identity identity;
  Launch launch;
  uint64_t durable_seq = 0;     // rows up to this one are in the store
  uint64_t aggregated_seq = 0;  // rows up to this one are in their run, or counted as late
  uint64_t durable_item = 0;    // items up to this one are in the store
  uint64_t lost_items = 0;  // of these, items that an earlier store lost, or that were unreadable
  // Of these, items of console lines, and numbers that an import left out: they are not kept as items.
  uint64_t console_items = 0;
  // The rank reported that no row with a step up to this one will come.
  static constexpr int64_t kAllSteps = std::numeric_limits<int64_t>::max() / 2;  // no row will come
  int64_t passed_step = -1;
  StreamState state = StreamState::kLive;
  int32_t exit_code = 0;
  // Why it crashed. While it is live: why its ring is not a file, if it is not.
  std::string reason;
  Losses losses;
  // The number of this attempt of the run. An attempt ends with the streams of the primary rank.
  // The next one begins with a rank that took part and has ended, or with another start.
  uint32_t attempt = 1;
  bool began_anew = false;  // begun in an attempt in which its rank had ended
  int64_t begun_step = -1;  // the run's last step when this stream began
  uint64_t late_rows = 0;
  uint64_t replayed_rows = 0;  // for a primary: rows that are replays
  // For a primary: rows that share the row of their step with another one, or have no metrics.
  int64_t merged_rows = 0;
  // The offset of its rows without a step. 0 in the first attempt, and after it has given a step.
  // Known after the first of its rows was used.
  int64_t step_base = 0;
  int64_t init_us = 0;  // when its process called Init(), by that process's clock; 0: unknown
  int64_t started_us = 0;
  int64_t ended_us = 0;
  // The node whose daemon sent it, because the run joins the ranks of all nodes; empty: a rank of
  // this daemon.
  std::string peer;
  // Of a rank of this daemon whose run is a part: how far the daemon of rank 0's node has it.
  uint64_t joined_seq = 0;  // rows up to this one
  Joined joined = Joined::kOpen;
  bool joins = false;        // a daemon has begun to send it there
  uint64_t joined_late = 0;  // rows that came there after their step was closed
};

// The reason of a stream contains this text if its rank left an unknown number of rows that are not
// in the store.
inline constexpr absl::string_view kSpoolUnread = "; its spool could not be read";
bool SpoolIsUnread(const Stream& stream);

// The reason of a stream of another node that was ended because its daemon was not heard of. Its
// rank may be alive.
inline constexpr absl::string_view kNotHeardOf = "its node was not heard of any more";

// The progress of one destination with a run.
struct Delivery {
  int64_t run = 0;
  std::string kind;             // such as "wandb", "local"
  uint64_t delivered_rows = 0;  // rows [0, delivered_rows) were delivered; all rows for local
  uint64_t refused_rows = 0;    // stored in the dead-letter table
  // The store's id of the last item that the destination has, or has refused.
  int64_t delivered_items = 0;
  uint64_t pending_items = 0;  // number of later items; set by the store, never stored
  bool complete = false;       // the run's end was delivered too
  std::string last_error;      // empty: the last exchange succeeded
  Json cursor;                 // where the delivery continues, such as a line offset
  // The number of consecutive crashes of processes during this delivery, and the version of the
  // last one. PutDelivery() does not change these.
  uint32_t crashes = 0;
  std::string crashed_version;

  // How many of the delivered rows were not sent, because the destination has their steps from
  // another node. A member of the cursor, for destinations of every kind that leave such rows out.
  uint64_t replayed_rows() const;

  // How far its uploads of artifacts and files are. Members of the cursor, too.
  struct Uploads {
    int64_t through = 0;      // the destination has those up to this item, or has refused them
    uint64_t sent_files = 0;  // of the next one: what the destination has
    uint64_t sent_bytes = 0;
  };
  Uploads uploads() const;

  // No process tries this delivery, because it crashes the process.
  bool set_apart() const { return crashes >= kSetApart; }
  static constexpr uint32_t kSetApart = 2;
};

// A record that a tracker refused.
struct DeadLetter {
  // Enough to recognize a record of any size.
  static constexpr size_t kMaxContent = 64 << 10;

  int64_t id = 0;
  int64_t run = 0;
  std::string kind;
  uint64_t row = 0;  // its index in the run
  int64_t time_us = 0;
  std::string answer;   // the tracker's answer
  std::string content;  // the refused record, cut to kMaxContent bytes
};

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_RUN_H_
