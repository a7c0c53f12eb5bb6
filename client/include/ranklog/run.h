#ifndef RANKLOG_RUN_H_
#define RANKLOG_RUN_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ranklog/c.h"
#include "ranklog/compiler.h"
#include "ranklog/media.h"
#include "ranklog/settings.h"
#include "ranklog/span.h"
#include "ranklog/value.h"

namespace ranklog {
inline namespace RANKLOG_LAYOUT {

// Counters of this process, over all its threads, since Init().
struct Stats {
  uint64_t rows_logged = 0;   // Log() returned true
  uint64_t rows_durable = 0;  // the daemon acknowledged them: they survive a power cut

  // Rows that Log() refused, by reason.
  // The spool was full: no daemon ran for minutes, or spool_bytes is too small.
  uint64_t lost_ring_full = 0;
  // A row handle is empty or got another number of values, a row has too many keys (see Log()), a
  // step is above 2^53, or a signal handler called Log() during another call.
  uint64_t lost_invalid = 0;
  uint64_t lost_step_behind = 0;   // the step was below the last one of its thread, or closed by it
  uint64_t lost_too_large = 0;     // the row was larger than half of the spool
  uint64_t lost_after_finish = 0;  // Finish() had been called

  // Log() returned true, but then the program overwrote the spool. These rows and all after them
  // cannot be sent. When the process has ended, the daemon takes the rows that it can still read.
  uint64_t lost_damaged = 0;

  // Values that were left out of rows that Log() took, because the key or the value cannot be
  // logged.
  uint64_t lost_values = 0;

  // Calls of Config(), Summary(), DefineMetric(), MarkPreempting() and Alert(), and metadata, not
  // yet acknowledged.
  uint64_t updates_pending = 0;
  uint64_t updates_refused = 0;  // such calls that returned false, and refused uploads
  bool connected = false;        // a daemon answers, and rows do not wait for it for more than 3 s
  // The reason why a row was last refused or a value was left out, why no daemon answers, or what is
  // wrong with this start.
  // A start is wrong if Settings::resume does not allow it, another process has this rank, or
  // another run has the id. Empty if all is well.
  std::string last_error;

  // The id of the run that gets the rows. It is settings().run_id, or another id that the daemon
  // chose, because each start is a run of its own. On a node without rank 0 it becomes known when
  // the daemon knows the node's first rank.
  std::string run_id;
};

// Result of Finish() and Flush().
enum class FlushResult {
  // All rows are on this node's disk. If Finish() waited for delivery, the tracker has them too.
  kDurable,
  // The timeout passed. The remaining rows are in the spool, and the daemon takes them from there.
  kSpooled,
  // All rows are on this node's disk, but the tracker does not have all of them: delivery_timeout
  // passed, or the daemon stopped. The daemon sends the rest later.
  kUndelivered,
};

// How charts and the summary treat a metric.
// The empty braces let a caller name only some fields without a compiler warning.
struct MetricOptions {
  std::string step_metric{};  // the metric for the x axis
  bool step_sync = true;      // rows without the step metric get its last number
  bool hidden = false;
  // Any of: min max mean last first best none. `goal` decides whether `best` is the minimum or the
  // maximum; without a goal, `best` has no effect. (W&B's client removed `best`; W&B shows it like
  // the other statistics.)
  std::vector<std::string> summary{};
  std::string goal{};  // minimize, maximize
};

// A version of an artifact, such as a checkpoint. See Run::LogArtifact().
struct Artifact {
  std::string name{};  // 1 to 128 letters, digits, dots, dashes and underscores
  std::string type{};  // such as "model" or "dataset", without / and :
  // Files, and directories. A file gets its last component as its name in the artifact; the files of
  // a directory get their paths in it.
  std::vector<std::string> paths{};
  std::vector<std::string> aliases{};    // empty: "latest"
  std::vector<Value::Field> metadata{};  // at most 100
  std::string description{};
  std::vector<std::string> tags{};
  std::vector<std::string> references{};  // URLs of content that stays where it is
  // The version has the files of the latest version, too; those of equal names are replaced. So a few
  // files are added to a large dataset without the others.
  bool incremental = false;
};

// When Run::Save() uploads a file.
enum class SavePolicy {
  kNow = RANKLOG_SAVE_NOW,  // as it is at the call
  // As it is at Finish() or in the destructor. Until then the upload is kStaging, and the file need
  // not exist. If the process is killed, the file is not uploaded.
  kEnd = RANKLOG_SAVE_END,
  // As it is at the call; again if its size or its time has changed, which is checked every 5
  // seconds; and as it is at the end. The upload is kStaged once a copy is. If the process is killed,
  // the last copy counts. A large file is copied less often: 256 KiB/s on average. A file that is
  // absent, or changes while it is copied, is tried again at the next check.
  kLive = RANKLOG_SAVE_LIVE,
};

// The upload of an artifact or of a file. Copies are cheap, and any thread may use them.
class Upload {
 public:
  Upload() = default;  // kRefused
  enum class State {
    // Its files are being copied, so they must not change. Or its SavePolicy has no copy yet.
    kStaging = RANKLOG_STAGING,
    // It will arrive, whatever is killed, like a row for which Log() returned true. Its files may
    // change now, and may be removed.
    kStaged = RANKLOG_STAGED,
    kRefused = RANKLOG_REFUSED,  // it will not arrive: see error()
  };
  State state() const noexcept { return static_cast<State>(ranklog_upload_state(upload_.get())); }
  // Waits while it is kStaging, for at most `timeout`. Returns whether it is kStaged.
  bool Wait(std::chrono::milliseconds timeout = std::chrono::hours(24)) const noexcept {
    return ranklog_upload_wait(upload_.get(), timeout.count()) == RANKLOG_STAGED;
  }
  // Why it is kRefused.
  std::string error() const;

 private:
  friend class Run;
  explicit Upload(ranklog_upload* upload) noexcept;
  std::shared_ptr<ranklog_upload> upload_;
};

enum class AlertLevel { kInfo, kWarn, kError };

// A message to the people who watch the run.
struct AlertOptions {
  std::string title{};  // 1 to 64 characters of UTF-8, as at W&B
  std::string text{};   // UTF-8; may be empty
  AlertLevel level = AlertLevel::kInfo;
  // Within this time after an alert, the tracker sends no other one with the same title. Not
  // negative.
  std::chrono::milliseconds wait{60'000};
};

// A fixed list of keys, checked and stored once. This is the cheapest way to log. Made by
// Run::Row(). Copies are cheap, and any thread may use them.
class RowHandle {
 public:
  RowHandle() = default;  // no keys: Log() refuses a row with it as invalid

 private:
  friend class Run;
  std::shared_ptr<const ranklog_row> row_;
};

// A key that is checked and stored once. Made by Run::MetricKey().
class MetricHandle {
 public:
  MetricHandle() = default;

 private:
  friend class Run;
  const ranklog_key* key_ = nullptr;  // never freed; null means no key
};

// A ranklog_key_value, so that a list of these is passed to the library as it is.
struct HandleValue {
  MetricHandle metric;
  double value;
};
static_assert(sizeof(HandleValue) == sizeof(ranklog_key_value) &&
                  offsetof(HandleValue, value) == offsetof(ranklog_key_value, value),
              "a list of HandleValue is passed as a list of ranklog_key_value");

// A line of a console. A later line of the same number, in the same process and thread, replaces it.
struct ConsoleLine {
  std::uint64_t number = 0;  // grows from line to line; numbers may be left out
  std::int64_t time_us = 0;  // Unix time of its first character, in microseconds
  bool error = false;        // to stderr
  std::string text;          // UTF-8, without the end of the line
};

// One rank's handle to its run. Movable.
//
// The destructor works like Finish(), but does not wait: the rows are in the spool, and the daemon
// takes them from there. The run's exit code is then the exit code of the process, or 0 if the
// process lives for two more seconds. The daemon sees the exit code on Linux 6.15 or later, in the
// same pid namespace. Otherwise it takes the code of exit() or main(), which the spool records; a
// signal or _exit() then counts as 0.
//
// With Settings::delivery_timeout, the destructor and exit() wait as Finish() does, unless Finish()
// was called. exit() does not destroy a Run that lives in a function, but waits for it.
// Settings::on_message is not called during exit().
//
// Thread-safe: any thread may call any function. Each thread that logs has its own ring. A forked
// child may continue to use the run. Its first call creates a ring and a stream for it; a child
// that never calls costs nothing. If a child ends without Flush() or Finish(), the daemon takes its
// rows within seconds. If the parent's rows have closed a step by then, the child's rows for it are
// late.
class Run {
 public:
  Run() noexcept = default;  // no run: Log() returns false
  Run(Run&& other) noexcept
      : run_(std::exchange(other.run_, nullptr)), settings_(std::move(other.settings_)) {}
  Run& operator=(Run&& other) noexcept {
    if (this != &other) {
      const Run ended(std::move(*this));
      run_ = std::exchange(other.run_, nullptr);
      settings_ = std::move(other.settings_);
    }
    return *this;
  }
  ~Run() {
    if (run_ != nullptr) ranklog_release(run_, std::uncaught_exceptions() > 0);
  }

  // Logs one row.
  //   true   the row survives this process and the daemon (see "returned" in the README)
  //   false  the row was refused; stats() counts it by reason
  //
  // Never waits. Makes no system call, except at a thread's first row, at its first large row (see
  // Settings::spool_bytes), and for an invalid row or value. Allocates only at the first row of a
  // shape, and for lists and objects.
  //
  // A value that cannot be logged is left out, and the rest of the row is logged; stats() counts
  // such values. The reasons: the key is not as Metric describes; a text is not UTF-8; a value has
  // more than kMaxValueDepth levels, or takes more than half of the spool alone.
  //
  // A refused row changes only its counter. Later rows without a step get the same steps as without
  // it. So give the steps if the rows of several ranks must have equal steps.
  //
  // With a step: the steps of a thread never decrease. A row with the same step merges into it; a
  // row with a smaller step is refused. So is a row with the same step if the thread has logged a
  // row without a step since, because that row closes its step. Rows of several threads at one step
  // are joined like rows of several ranks, however far one thread is ahead. If a thread logs
  // nothing while others continue, its steps wait for one second. The wait is 30 s if that thread
  // has once logged a smaller step than the others had one second before. Rows for a step that is
  // already closed stay in the store and are counted as late. The same holds for a thread that
  // starts to log when the daemon already has the other threads' rows.
  //
  // Without a step: the row merges into the open step, which is the largest step that any thread
  // has given. It also closes that step: the next row without a step takes the next one.
  //
  // A key may have several values at one step, in one row or in several. The last value counts,
  // whatever its type. A row without metrics has the same effects on steps, and counts as logged.
  // If a step has no metrics at all, the run has no row for it.
  //
  // The threads of a process and its forked children share the open step. A new process counts from
  // step 0. It may also continue a run (Settings::resume, or a restart by the launcher). Then the
  // steps of rows without a step continue from the run's last step, until the process logs a row
  // with a step.
  //
  // If the process gives a step that the run already has, as after a checkpoint, the run is rewound
  // to that step. From then on, the run consists of the new rows. Rows of an earlier start at this
  // step and above are hidden. A tracker that cannot take rows back keeps its rows, and gets only
  // rows above its last step.
  //
  // NaN and infinities are valid values: they are stored and delivered unchanged. Statistics over
  // ranks exclude them. A statistic is NaN if no rank has a finite value. Statistics of finite
  // values are finite.
  //
  // A signal handler may log rows like earlier rows of its thread: the same keys, no larger. If
  // it interrupts a call of its thread that writes to the run, its row is refused and counted as
  // invalid. It must not call any other function of a run. It may call exit() at any point, even
  // while its thread is in one of these functions. The process then ends as after any other exit().
  //
  // A thread's rows may have 10,000 different lists of keys, of 64 MiB in all. A row that exceeds
  // this is invalid.
  bool Log(std::initializer_list<Metric> row) noexcept {
    return ranklog_log(run_, row.begin(), row.size(), RANKLOG_NO_STEP);
  }
  bool Log(std::initializer_list<Metric> row, int64_t step) noexcept {
    return ranklog_log(run_, row.begin(), row.size(), GivenStep(step));
  }
  bool Log(Span<const Metric> row) noexcept;
  bool Log(Span<const Metric> row, int64_t step) noexcept;

  // Like Log() above, with keys that MetricKey() has checked. 1.4 times cheaper than strings for 10
  // values. For a key that cannot be logged, MetricKey() returns an empty handle.
  MetricHandle MetricKey(std::string_view key) noexcept;
  bool Log(Span<const HandleValue> row) noexcept;
  bool Log(Span<const HandleValue> row, int64_t step) noexcept;

  // Like Log() above, with all keys of a row. The numbers of values and keys must be equal. 1.4
  // times cheaper than strings for 10 values, 6 times for 1000.
  RowHandle Row(Span<const std::string_view> keys) noexcept;
  RowHandle Row(std::initializer_list<std::string_view> keys) noexcept;
  bool Log(const RowHandle& row, Span<const double> values) noexcept;
  bool Log(const RowHandle& row, Span<const double> values, int64_t step) noexcept;

  // Logs one row with media: an Image, Images, a Table or Html. Their bytes go to files of the run,
  // and the row gets the entries that W&B's SDK logs for them. A row without media is the row above,
  // at the same cost.
  //
  // Not the fast path, because the files must be safe before the row is. Each is written to the
  // daemon's state directory and synced to the disk: some ms per MB, and the time of a sync. Takes
  // locks, so not in a signal handler. In the first 5 s of a run (finish_timeout, if that is
  // shorter), it may wait until a daemon answers.
  //   true   the row, and the files of its media, arrive, whatever is killed
  //   false  the row was refused, as above; files that were written before that arrive alone
  //
  // A medium that cannot be kept is left out like any other value, the rest of the row is logged,
  // and lost_values counts it: its content is wrong or too large, the disk has no room, no daemon has
  // answered since Init(), or this process does not see the daemon's directory. stats().last_error
  // says which, and what to do.
  //
  // Only ranks whose rows are the run's rows write media: rank 0 under kMain, the first rank of each
  // node under kNode. Other ranks leave them out of their rows, which costs nothing and counts as
  // nothing. See media.md.
  template <typename = void>  // so that a row without media is not ambiguous
  bool Log(std::initializer_list<MediaMetric> row) noexcept {
    return ranklog_log_media(run_, row.begin(), row.size(), RANKLOG_NO_STEP);
  }
  template <typename = void>
  bool Log(std::initializer_list<MediaMetric> row, int64_t step) noexcept {
    return ranklog_log_media(run_, row.begin(), row.size(), GivenStep(step));
  }
  bool Log(Span<const MediaMetric> row) noexcept;
  bool Log(Span<const MediaMetric> row, int64_t step) noexcept;

  // Merges the fields into the run's config or summary, by top-level key. If both Summary() and
  // Log() set a metric, the last value counts. A value that is set while a step is open counts as
  // set at the end of that step. Values of the rank whose rows are the run's rows (rank 0 under
  // kMain) take precedence over those of other ranks. The last value is that of the last call, by
  // any thread or process of the node.
  // A call that is too large for the spool writes to a file of the daemon's state directory, which
  // takes some 3 ms per MB. At most 256 MiB.
  //   false  not accepted; see stats().last_error
  bool Config(std::vector<Value::Field> config) noexcept;
  bool Summary(std::vector<Value::Field> summary) noexcept;

  // Defines how the tracker shows the metric `name`, or all metrics with that prefix if `name` ends
  // in "*". Also applies to earlier rows of the run. Returns false if it was not accepted.
  bool DefineMetric(std::string_view name, const MetricOptions& options = {}) noexcept;

  // Logs a version of an artifact, as an output of the run. Any rank may; usually rank 0 does, after a
  // barrier. Returns at once: a thread of this library copies the files to the daemon's state
  // directory. Until the upload is kStaged, they must not change. A file system that can share the
  // space of copies does (reflinks); others need free space for them, and a twentieth of the file
  // system stays free. The daemon sends the copies and removes them then; `local` runs keep them.
  // Equal content is not sent again: a version with the files of an earlier one is that version.
  // Finish() and the destructor wait until all uploads are staged, as long as their copies advance. A
  // refused upload counts in updates_refused. A forked child does not see the end of its parent's
  // uploads. Links are followed; one whose target is absent refuses the artifact.
  //
  //   ranklog::Upload upload = run.LogArtifact({"gpt", "model", {"checkpoints/step-1000"}});
  //   if (!upload.Wait()) std::cerr << upload.error() << '\n';
  Upload LogArtifact(const Artifact& artifact) noexcept;
  // Logs source files below the directory `root` as a version of an artifact of type "code", which the
  // tracker shows as the code of the run. `name`: of the artifact; empty: source-PROJECT-PROGRAM.
  // `suffixes`: of the files' names; empty: those of C, C++, CUDA and Python sources, CMake and shell
  // scripts, and Dockerfiles. Left out are hidden directories, links to directories, build trees of
  // CMake, and W&B's own directories. At most 10,000 files; none is an error.
  Upload LogCode(const std::string& root = ".", const std::string& name = "",
                 const std::vector<std::string>& suffixes = {}) noexcept;
  // Uploads a file to the files of the run, in the same way. `name`: its path there, with /; empty: the
  // last component of `path`. A later file of the same name replaces it. Names of files that Ranklog
  // writes itself are refused: config.yaml, output.log, requirements.txt, wandb-metadata.json and
  // wandb-summary.json.
  Upload Save(const std::string& path, const std::string& name = "",
              SavePolicy policy = SavePolicy::kNow) noexcept;

  // Records that the run uses a version of an artifact: the tracker shows it as an input of the run.
  // `name`: [[ENTITY/]PROJECT/]NAME[:ALIAS], by default of the run's project, and "latest"; an alias may
  // be a version, "v3". Downloads nothing (see `ranklog artifacts get`). Returns at once, like
  // LogArtifact(), and keeps its place among the uploads of the process: the alias means the version
  // that has it once the earlier ones have arrived. An artifact that the tracker does not have then is
  // in `ranklog dead`.
  Upload UseArtifact(const std::string& name) noexcept;

  // Tells the tracker that the job is about to be preempted, for instance after a SIGTERM from the
  // scheduler. Any rank may. If the run then ends with an error, W&B shows it as preempted instead
  // of failed, until the job continues it. Returns false if it was not accepted. Takes locks, so not
  // in a signal handler.
  bool MarkPreempting() noexcept;

  // Sends a message to the people who watch the run: W&B sends it by e-mail or Slack, as each of
  // them has chosen there. It is kept like a row until the tracker has it, and the run's end waits
  // for it. If the tracker's answer is lost, the message is sent again; the tracker drops that one
  // if it comes within `wait`.
  //
  // Any rank and thread may. An alert that all ranks send arrives once, because of `wait`. Under
  // kMain, those of nodes without rank 0 stay on their node, like their rows. Never waits for the
  // network. Takes locks, so not in a signal handler. This syntax needs C++20:
  //
  //   run.Alert({.title = "loss is NaN", .level = ranklog::AlertLevel::kError});
  //
  //   false  not accepted: a wrong title, text, level or wait; see stats().last_error
  bool Alert(const AlertOptions& alert) noexcept;

  // From now on, logs what this process and its children print to stdout and stderr as the console of
  // the run, until Finish() or the destructor: `ranklog logs RUN --rank N` shows it, and W&B's page that
  // of the run's first rank. The output itself does not change: it goes where it went, in the same order,
  // and where it was a terminal the program sees one. If stdout and stderr are the same file, all of it
  // counts as stdout.
  //
  // Starts a small process, `ranklog`, which reads what is printed from a pipe: that takes some 50 ms,
  // and at most 2 s. It outlives this process, so that the last words before a crash or a SIGKILL are
  // there. If it dies itself, the output goes on without it. Finish() and exit() wait until it has
  // written everything, at most for 10 s. Under `ranklog exec`, which logs the console already, this
  // does nothing. Not in a signal handler. See console.md.
  //   false  not accepted, for example because `ranklog` is not installed; see stats().last_error
  bool CaptureConsole() noexcept;
  // Logs lines of the console that the program has read itself.
  bool LogConsole(Span<const ConsoleLine> lines) noexcept;

  // Waits until all rows logged so far are durable, for at most `timeout`.
  FlushResult Flush(std::chrono::milliseconds timeout) noexcept;

  // Ends this process's part of the run. Waits until all rows are durable, for at most
  // Settings::finish_timeout. If that time passes, nothing is lost. The daemon continues the
  // delivery to the tracker.
  //
  // With Settings::delivery_timeout, some ranks also wait until the whole run is delivered,
  // including the ends of its other ranks. These are rank 0 under kMain, local rank 0 of each node
  // under kNode, and every rank, for its own run, under kAll. kDurable then means that the tracker
  // has the run. The wait does not apply to a run that stays on this node, or to a forked child.
  //
  // A second call keeps the first exit code, and waits again only if rows are not durable yet. If
  // another thread calls Log() at the same time, its row is either taken or refused. A taken row is
  // durable when this returns kDurable. A refused row is counted in lost_after_finish.
  FlushResult Finish(int exit_code = 0) noexcept;

  Stats stats() const noexcept;

  // The settings as Init() resolved them: run_id, group, rank and others are filled in.
  const Settings& settings() const noexcept;

  // The run's page at its tracker. Empty until the daemon knows it, and for a run that stays on this
  // node. Costs about as much as stats().
  std::string Url() const noexcept;

  // Whether a person asked on the run's page at its tracker that the run stops; once true, always
  // true. Reads a flag in memory: never waits, costs a nanosecond, and any thread may call it at any
  // time, also a signal handler. What the program does about it is its own decision:
  //
  //   if (run.stop_requested()) { SaveCheckpoint(); break; }
  //
  // The ranks of the run get to know it, each at its own time: the daemon learns of it by its next
  // post, within 30 s, and tells the ranks at once. So let the ranks agree, for example by an
  // all-reduce of this flag, before they leave the loop. Under kMain, ranks of nodes without rank 0
  // learn of it only that way, because their daemon does not send the run. Nor does a rank learn of
  // it before its first row, or after Finish(). A forked child that has not used the run has its
  // parent's answer of the fork. Under kNode and kAll, it concerns only the run of that page.
  //
  // When a stopped run is continued, its tracker decides: W&B may still say that it was stopped.
  bool stop_requested() const noexcept;

  // A text by which other processes write to this run: see Attach(). Some hundred bytes of
  // [A-Za-z0-9_.-]. It contains no secrets, stays the same for the whole run, and is valid on this
  // node, in this boot. Empty for a disabled run.
  std::string Handle() const noexcept;

 private:
  friend Run Init(Settings settings) noexcept;

  // RANKLOG_NO_STEP as a step is as far below 0 as its neighbour.
  static int64_t GivenStep(int64_t step) noexcept { return step + (step == RANKLOG_NO_STEP); }
  template <typename Update>
  static bool Merge(const std::vector<Value::Field>& fields, const Update& update) noexcept;

  ranklog_run* run_ = nullptr;
  std::unique_ptr<const Settings> settings_;  // a copy of those of run_
};

// Opens a run. Returns within 10 ms, with or without a daemon, a network or a tracker. Replaces
// settings that Validate() rejects with usable ones, so that a typo loses no row. Reports each
// replacement in the terminal and in stats().last_error.
//
// With Settings::handle (RANKLOG_HANDLE), it joins the run of another process instead. See Attach().
Run Init(Settings settings) noexcept;

// Joins the run of another process of this node, its maker, by the handle that Run::Handle() returned
// there. Use it after fork() and exec(), or in any process that gets the handle. Never fails the
// caller, and takes at most 10 ms, like Init().
//
// The process is then another process of the maker's rank:
// - Its rows have its own ring and its own connection. The spool, the daemon's address and the
//   credentials come from its own settings; project, id, name, group, rank and strategy are the
//   maker's.
// - Rows of several processes at one step are joined, like those of threads. Rows without a step take
//   the open step that all processes of the run share, as long as the maker lives and is visible
//   here. Without that, they count from step 0, and rows of steps that the run has passed are late:
//   give the steps.
// - The run ends when all of its processes have ended. Finish() of this process ends its part of the
//   run. It waits until its rows are durable, and never for the delivery. The run's exit code and
//   reason are those of the maker. A code that this process gives, or its crash, does not count.
// - If the maker has ended already, the run is open again until this process ends.
// - It prints no messages except mistakes in its own settings.
//
// If the handle is wrong, for example because it was cut, the rows are kept in a run of their own, as
// by Init() with these settings. The terminal and stats().last_error report it.
Run Attach(std::string_view handle) noexcept;
Run Attach(std::string_view handle, Settings settings) noexcept;

// What follows is not part of the documentation.

inline bool Run::Log(Span<const Metric> row) noexcept {
  return ranklog_log(run_, row.data(), row.size(), RANKLOG_NO_STEP);
}

inline bool Run::Log(Span<const Metric> row, int64_t step) noexcept {
  return ranklog_log(run_, row.data(), row.size(), GivenStep(step));
}

inline bool Run::Log(Span<const MediaMetric> row) noexcept {
  return ranklog_log_media(run_, row.data(), row.size(), RANKLOG_NO_STEP);
}

inline bool Run::Log(Span<const MediaMetric> row, int64_t step) noexcept {
  return ranklog_log_media(run_, row.data(), row.size(), GivenStep(step));
}

inline MetricHandle Run::MetricKey(std::string_view key) noexcept {
  MetricHandle handle;
  handle.key_ = ranklog_get_key(run_, key.data(), key.size());
  return handle;
}

inline bool Run::Log(Span<const HandleValue> row) noexcept {
  return ranklog_log_keys(run_, reinterpret_cast<const ranklog_key_value*>(row.data()), row.size(),
                          RANKLOG_NO_STEP);
}

inline bool Run::Log(Span<const HandleValue> row, int64_t step) noexcept {
  return ranklog_log_keys(run_, reinterpret_cast<const ranklog_key_value*>(row.data()), row.size(),
                          GivenStep(step));
}

inline RowHandle Run::Row(Span<const std::string_view> keys) noexcept {
  RowHandle handle;
  RANKLOG_TRY {
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    texts.reserve(keys.size());
    sizes.reserve(keys.size());
    for (const std::string_view key : keys) {
      texts.push_back(key.data());
      sizes.push_back(key.size());
    }
    const ranklog_row* const row = ranklog_row_new(run_, texts.data(), sizes.data(), keys.size());
    if (row != nullptr) handle.row_.reset(row, ranklog_row_free);
  }
  RANKLOG_CATCH_ALL {}  // no memory: the handle is empty
  return handle;
}

inline RowHandle Run::Row(std::initializer_list<std::string_view> keys) noexcept {
  return Row(Span<const std::string_view>(keys.begin(), keys.size()));
}

inline bool Run::Log(const RowHandle& row, Span<const double> values) noexcept {
  return ranklog_log_row(run_, row.row_.get(), values.data(), values.size(), RANKLOG_NO_STEP);
}

inline bool Run::Log(const RowHandle& row, Span<const double> values, int64_t step) noexcept {
  return ranklog_log_row(run_, row.row_.get(), values.data(), values.size(), GivenStep(step));
}

template <typename Update>
bool Run::Merge(const std::vector<Value::Field>& fields, const Update& update) noexcept {
  std::vector<ranklog_field> list;
  RANKLOG_TRY {
    list.reserve(fields.size());
    for (const auto& [key, value] : fields) {
      list.push_back(value.field());
      list.back().key = key.data();
      list.back().key_bytes = key.size();
    }
  }
  RANKLOG_CATCH_ALL { return update(nullptr, fields.size()); }  // no memory: refused, and counted
  return update(list.data(), list.size());
}

inline bool Run::Config(std::vector<Value::Field> config) noexcept {
  return Merge(config, [this](const ranklog_field* fields, size_t count) {
    return ranklog_config(run_, fields, count);
  });
}

inline bool Run::Summary(std::vector<Value::Field> summary) noexcept {
  return Merge(summary, [this](const ranklog_field* fields, size_t count) {
    return ranklog_summary(run_, fields, count);
  });
}

inline Upload::Upload(ranklog_upload* upload) noexcept {
  RANKLOG_TRY {
    if (upload != nullptr) upload_.reset(upload, ranklog_upload_free);
  }
  RANKLOG_CATCH_ALL {}  // no memory: it counts as refused here, and may arrive
}

inline std::string Upload::error() const {
  std::string text(ranklog_upload_error(upload_.get(), nullptr, 0), '\0');
  if (!text.empty()) ranklog_upload_error(upload_.get(), &text[0], text.size() + 1);
  return text;
}

inline Upload Run::LogArtifact(const Artifact& artifact) noexcept {
  ranklog_artifact converted = RANKLOG_ARTIFACT_INIT;
  std::vector<ranklog_field> metadata;
  std::vector<const char*> lists[4];
  RANKLOG_TRY {
    const std::vector<std::string>* const from[] = {&artifact.paths, &artifact.references,
                                                    &artifact.aliases, &artifact.tags};
    for (int i = 0; i < 4; ++i) {
      for (const std::string& text : *from[i]) lists[i].push_back(text.c_str());
    }
    for (const auto& [key, value] : artifact.metadata) {
      metadata.push_back(value.field());
      metadata.back().key = key.data();
      metadata.back().key_bytes = key.size();
    }
  }
  RANKLOG_CATCH_ALL { return Upload(ranklog_log_artifact(run_, nullptr)); }  // no memory: refused
  converted.name = artifact.name.c_str();
  converted.type = artifact.type.c_str();
  converted.description = artifact.description.c_str();
  converted.paths = lists[0].data();
  converted.path_count = lists[0].size();
  converted.references = lists[1].data();
  converted.reference_count = lists[1].size();
  converted.aliases = lists[2].data();
  converted.alias_count = lists[2].size();
  converted.tags = lists[3].data();
  converted.tag_count = lists[3].size();
  converted.metadata = metadata.data();
  converted.metadata_count = metadata.size();
  converted.incremental = artifact.incremental;
  return Upload(ranklog_log_artifact(run_, &converted));
}

inline Upload Run::LogCode(const std::string& root, const std::string& name,
                           const std::vector<std::string>& suffixes) noexcept {
  std::vector<const char*> list;
  RANKLOG_TRY {
    for (const std::string& suffix : suffixes) list.push_back(suffix.c_str());
  }
  RANKLOG_CATCH_ALL { return Upload(ranklog_log_artifact(run_, nullptr)); }  // no memory: refused
  return Upload(ranklog_log_code(run_, root.c_str(), name.empty() ? nullptr : name.c_str(),
                                 list.data(), list.size()));
}

inline Upload Run::Save(const std::string& path, const std::string& name,
                        SavePolicy policy) noexcept {
  return Upload(ranklog_save_by_policy(run_, path.c_str(), name.empty() ? nullptr : name.c_str(),
                                       static_cast<int>(policy)));
}

inline Upload Run::UseArtifact(const std::string& name) noexcept {
  return Upload(ranklog_use_artifact(run_, name.c_str()));
}

inline bool Run::MarkPreempting() noexcept { return ranklog_mark_preempting(run_); }

inline bool Run::CaptureConsole() noexcept { return ranklog_capture_console(run_); }

inline bool Run::LogConsole(Span<const ConsoleLine> lines) noexcept {
  RANKLOG_TRY {
    std::vector<ranklog_console_line> converted;
    for (const ConsoleLine& line : lines) {
      converted.push_back(
          {line.number, line.time_us, line.error, line.text.data(), line.text.size()});
    }
    return ranklog_log_console(run_, converted.data(), converted.size());
  }
  RANKLOG_CATCH_ALL { return false; }
}

inline bool Run::Alert(const AlertOptions& alert) noexcept {
  ranklog_alert_options converted = RANKLOG_ALERT_OPTIONS_INIT;
  converted.title = alert.title.data();
  converted.title_bytes = alert.title.size();
  converted.text = alert.text.data();
  converted.text_bytes = alert.text.size();
  converted.level = static_cast<int>(alert.level);
  converted.wait_ms = alert.wait.count();
  return ranklog_alert(run_, &converted);
}

inline bool Run::DefineMetric(std::string_view name, const MetricOptions& options) noexcept {
  ranklog_metric_options converted = RANKLOG_METRIC_OPTIONS_INIT;
  converted.step_metric = options.step_metric.data();
  converted.step_metric_bytes = options.step_metric.size();
  converted.step_sync = options.step_sync;
  converted.hidden = options.hidden;
  converted.goal = options.goal.c_str();
  std::vector<const char*> summary;
  RANKLOG_TRY {
    for (const std::string& word : options.summary) summary.push_back(word.c_str());
  }
  RANKLOG_CATCH_ALL { return ranklog_config(run_, nullptr, 1); }  // no memory: refused, and counted
  converted.summary = summary.data();
  converted.summary_count = summary.size();
  return ranklog_define_metric(run_, name.data(), name.size(), &converted);
}

inline FlushResult Run::Flush(std::chrono::milliseconds timeout) noexcept {
  return static_cast<FlushResult>(ranklog_flush(run_, timeout.count()));
}

inline FlushResult Run::Finish(int exit_code) noexcept {
  return static_cast<FlushResult>(ranklog_finish(run_, exit_code));
}

namespace header {

// A handle that is never valid, for Attach("").
inline constexpr const char* kNoHandle = "none";

// The text that `read` (ranklog_last_error, ...) writes. It may change between two calls.
template <typename Read>
std::string ReadText(const ranklog_run* run, const Read& read) {
  std::string text(255, '\0');
  for (;;) {
    const size_t bytes = read(run, text.data(), text.size() + 1);
    const bool is_whole = bytes <= text.size();
    text.resize(bytes);
    if (is_whole) return text;
  }
}

}  // namespace header

inline Stats Run::stats() const noexcept {
  RANKLOG_TRY {
    Stats stats;
    ranklog_stats counters = {};
    counters.size = sizeof counters;
    ranklog_get_stats(run_, &counters);
    stats.rows_logged = counters.rows_logged;
    stats.rows_durable = counters.rows_durable;
    stats.lost_ring_full = counters.lost_ring_full;
    stats.lost_invalid = counters.lost_invalid;
    stats.lost_step_behind = counters.lost_step_behind;
    stats.lost_too_large = counters.lost_too_large;
    stats.lost_after_finish = counters.lost_after_finish;
    stats.lost_damaged = counters.lost_damaged;
    stats.lost_values = counters.lost_values;
    stats.updates_pending = counters.updates_pending;
    stats.updates_refused = counters.updates_refused;
    stats.connected = counters.connected;
    stats.last_error = header::ReadText(run_, ranklog_last_error);
    stats.run_id = header::ReadText(run_, ranklog_run_id);
    return stats;
  }
  RANKLOG_CATCH_ALL { return Stats(); }  // no memory
}

inline std::string Run::Url() const noexcept {
  RANKLOG_TRY { return header::ReadText(run_, ranklog_url); }
  RANKLOG_CATCH_ALL { return std::string(); }  // no memory
}

inline bool Run::stop_requested() const noexcept { return ranklog_stop_requested(run_); }

inline std::string Run::Handle() const noexcept {
  RANKLOG_TRY { return header::ReadText(run_, ranklog_handle); }
  RANKLOG_CATCH_ALL { return std::string(); }  // no memory
}

inline const Settings& Run::settings() const noexcept {
  static const Settings* const kNone = new Settings;
  return settings_ == nullptr ? *kNone : *settings_;
}

inline Run Init(Settings settings) noexcept {
  Run run;
  RANKLOG_TRY {
    const header::SettingsHandle given = header::ToC(settings);
    auto resolved = std::make_unique<Settings>();
    if (given != nullptr) run.run_ = ranklog_init(given.get());
    if (run.run_ != nullptr) {
      *resolved = header::FromC(ranklog_run_settings(run.run_));
      resolved->on_message = std::move(settings.on_message);
      run.settings_ = std::move(resolved);
    }
  }
  RANKLOG_CATCH_ALL {}  // no memory: return an empty run, or one without its settings
  return run;
}

inline Run Attach(std::string_view handle, Settings settings) noexcept {
  RANKLOG_TRY {
    settings.handle = handle.empty() ? header::kNoHandle : std::string(handle);
    return Init(std::move(settings));
  }
  RANKLOG_CATCH_ALL { return Run(); }  // no memory
}

inline Run Attach(std::string_view handle) noexcept {
  RANKLOG_TRY { return Attach(handle, Settings::FromEnvironment()); }
  RANKLOG_CATCH_ALL { return Run(); }  // no memory
}

}  // namespace RANKLOG_LAYOUT
}  // namespace ranklog

#endif  // RANKLOG_RUN_H_
