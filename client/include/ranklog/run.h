#ifndef RANKLOG_RUN_H_
#define RANKLOG_RUN_H_

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ranklog/export.h"
#include "ranklog/settings.h"
#include "ranklog/span.h"
#include "ranklog/value.h"

namespace ranklog {

// Counts the calls of this process, over all its threads, since Init().
struct Stats {
  uint64_t rows_logged = 0;   // Log() returned true
  uint64_t rows_durable = 0;  // the daemon acknowledged them: they survive a power cut

  // Rows that Log() refused, by reason.
  // The spool was full: no daemon ran for minutes, or spool_bytes is too small.
  uint64_t lost_ring_full = 0;
  // A key or a value cannot be logged, or a signal handler called Log() during another call.
  uint64_t lost_invalid = 0;
  uint64_t lost_step_behind = 0;   // the step was below the last one of its thread
  uint64_t lost_too_large = 0;     // the row was larger than half of the spool
  uint64_t lost_after_finish = 0;  // Finish() had been called

  // Log() returned true, but then the program overwrote the spool. These rows and all after them
  // cannot be sent. When the process has ended, the daemon takes the rows that it can still read.
  uint64_t lost_damaged = 0;

  uint64_t updates_pending = 0;  // Config(), Summary(), DefineMetric() not yet acknowledged
  bool connected = false;        // a daemon answers; not one that took no row for 3 s
  // Why a row was last refused, why no daemon answers, or what is wrong with this start:
  // Settings::resume does not allow it, another process has this rank, or another run has the id.
  // Empty if all is well.
  std::string last_error;

  // The run that the rows go to. It is settings().run_id, or another one that the daemon chose,
  // since each start has a run of its own. On a node without rank 0 the daemon tells it once it
  // knows which rank is the node's first.
  std::string run_id;
};

// What Finish() and Flush() achieved.
enum class FlushResult {
  // All rows are on this node's disk. If Finish() waited for delivery, the tracker has them, too.
  kDurable,
  // The timeout passed. The rest is in the spool, and the daemon will take it from there.
  kSpooled,
  // All rows are on this node's disk, but the tracker lacks some of them: delivery_timeout passed,
  // or the daemon stopped. The daemon sends the rest.
  kUndelivered,
};

// How charts and the summary treat a metric.
// The empty braces let a caller name only some fields without a compiler warning.
struct MetricOptions {
  std::string step_metric{};  // the metric for the x axis
  bool step_sync = true;      // rows without the step metric get its last number
  bool hidden = false;
  // Any of: min max mean last first best none. `best` is the min or the max, as `goal` says;
  // without a goal it has no effect. (W&B's client dropped it; there it is a figure like the
  // others.)
  std::vector<std::string> summary{};
  std::string goal{};  // minimize, maximize
};

namespace internal {
class RingWriter;
class RunState;
struct RowShape;
}  // namespace internal

// A fixed list of keys that is checked and stored once: the cheapest way to log. Run::Row() makes
// it. Copies are cheap, and any thread may use them.
class RANKLOG_EXPORT RowHandle {
 public:
  RowHandle() = default;  // without keys: a row that is logged with it is invalid

 private:
  friend class Run;
  std::shared_ptr<const internal::RowShape> shape_;
};

// A key that is checked and stored once. Run::MetricKey() makes it.
class RANKLOG_EXPORT MetricHandle {
 public:
  MetricHandle() = default;

 private:
  friend class Run;
  friend class internal::RingWriter;
  const std::string* key_ = nullptr;  // never freed; null: no key
};

struct HandleValue {
  MetricHandle metric;
  double value;
};

// One rank's handle of its run. Movable.
//
// The destructor is a Finish() that does not wait: the rows are in the spool, and the daemon takes
// them from there. The run's exit code is then that of the process, if the process ends within two
// seconds and the daemon can see it (Linux 6.15, the same pid namespace); else 0. With
// Settings::delivery_timeout the destructor waits as Finish() does. So does exit(), which destroys no
// Run that lives in a function; Settings::on_message is not called during it.
//
// Any thread may call any function. Each thread that logs has a ring of its own. A forked child may
// go on using the run: at its first call it gets a ring and a stream of its own. A child that never
// calls costs nothing. If a child ends without Flush() or Finish(), the daemon takes its rows
// within seconds. Rows for steps that the parent's rows have closed by then are late.
class RANKLOG_EXPORT Run {
 public:
  Run() noexcept;  // without a run: Log() returns false
  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;
  ~Run();

  // Logs one row.
  // True: the row survives this process and the daemon (see "returned" in the README).
  // False: the row was refused, and stats() counts why.
  //
  // Never waits. Makes no system call after a thread's first row and its first large one (see
  // Settings::spool_bytes), unless the row is invalid. Allocates only at the first row of a shape.
  //
  // A row that is refused changes only its counter. Rows without a step that follow it have the
  // same steps as they would have without it. So give steps where the rows of several ranks are to
  // meet.
  //
  // With a step: the steps of a thread grow. The same step again merges; a smaller one is refused.
  // Rows of several threads at one step are joined, as those of ranks are, however far one thread
  // is ahead. While others go on, a thread that logs nothing is waited for one second. The wait is
  // 30 s once that thread has come back to a smaller step than the others had a second before.
  // What a thread brings for a step that is closed is kept in the store, and counted as late. The
  // same holds for a thread that begins when the daemon already has the others' rows.
  //
  // Without a step: the row merges into the open step, which is the largest that any thread has
  // given. It also closes that step for rows without a step.
  //
  // A key may have several values at one step, in one row or in several. The last one counts, be it
  // a number or a text. A row without metrics does all of the above, and counts as logged. If a
  // step has nothing else, the run has no line for it.
  //
  // The threads of a process and its forked children share the open step. A new process counts from
  // step 0. It may continue a run (Settings::resume, or a restart by the launcher). Then rows
  // without a step count on from the run's last step, until a row of the process gives a step.
  //
  // If it gives a step that the run has already, as after a checkpoint, the run is rewound to that
  // step. From then on these rows are the run's rows. What an earlier start logged at this step and
  // above is hidden. A tracker that cannot take rows back keeps what it has, and gets what lies
  // beyond.
  //
  // NaN and infinities are values: they are kept and delivered as they are. Statistics over ranks
  // leave them out; a statistic is NaN if no rank has a finite value. Statistics of finite values
  // are finite.
  //
  // A signal handler may log what its thread has logged before (the same keys, no larger). If it
  // interrupts a call of its thread that writes to the run, its row is refused, and counted as
  // invalid. It must not call any other function of a run. It may call exit() wherever it interrupts
  // its thread, in these functions too: the process ends as by any other exit().
  //
  // A thread's rows may have 10,000 different lists of keys, of 64 MiB in all. A row that would
  // need one more is invalid.
  bool Log(std::initializer_list<Metric> row) noexcept;
  bool Log(std::initializer_list<Metric> row, int64_t step) noexcept;
  bool Log(Span<const Metric> row) noexcept;
  bool Log(Span<const Metric> row, int64_t step) noexcept;

  // The same, with keys that MetricKey() has checked: 1.4 times cheaper than strings for 10 values.
  MetricHandle MetricKey(std::string_view key) noexcept;
  bool Log(Span<const HandleValue> row) noexcept;
  bool Log(Span<const HandleValue> row, int64_t step) noexcept;

  // The same, with all keys of a row: there must be as many values as keys. 1.4 times cheaper than
  // strings for 10 values, 6 times for 1000.
  RowHandle Row(Span<const std::string_view> keys) noexcept;
  RowHandle Row(std::initializer_list<std::string_view> keys) noexcept;
  bool Log(const RowHandle& row, Span<const double> values) noexcept;
  bool Log(const RowHandle& row, Span<const double> values, int64_t step) noexcept;

  // Merges into the run's config or summary, by top-level key. If both Summary() and Log() give a
  // metric a value, the last one counts. A value that is set in an open step counts as set at the
  // step's end. Values of rank 0 (of the rank whose rows the run has) go before those of others.
  // False: not taken (see stats().last_error).
  bool Config(std::vector<Value::Field> config) noexcept;
  bool Summary(std::vector<Value::Field> summary) noexcept;

  // `name` may end in "*". Also applies to earlier rows of the run. False: not taken.
  bool DefineMetric(std::string_view name, const MetricOptions& options = {}) noexcept;

  // Waits until all rows that were logged so far are durable, for at most `timeout`.
  FlushResult Flush(std::chrono::milliseconds timeout) noexcept;

  // Ends this process's part of the run. Waits until all rows are durable, for at most
  // Settings::finish_timeout; nothing is lost if that passes. The daemon goes on with the delivery
  // to the tracker.
  //
  // With Settings::delivery_timeout, the rank whose rows the run has (rank 0 under kMain, local
  // rank 0 under kNode) also waits until the whole run is delivered, with the ends of the other
  // ranks. kDurable then means that the tracker has the run. A run that stays on this node needs
  // no delivery, and a forked child does not wait for it.
  //
  // A second call is harmless. If another thread calls Log() meanwhile, its row is either taken,
  // and durable when this returns kDurable, or refused and counted in lost_after_finish.
  FlushResult Finish(int exit_code = 0) noexcept;

  Stats stats() const noexcept;

  // The settings as Init resolved them: run_id, group, rank and so on are filled in.
  const Settings& settings() const noexcept;

 private:
  friend RANKLOG_EXPORT Run Init(Settings settings) noexcept;
  std::shared_ptr<internal::RunState> state_;  // shared with the sender thread
};

// Opens a run. Returns within 10 ms, with or without a daemon, a network or a tracker.
// Replaces settings that Validate() refuses by usable ones, so that a typo loses no row. Reports
// that in the terminal and in stats().last_error.
RANKLOG_EXPORT Run Init(Settings settings) noexcept;

}  // namespace ranklog

#endif  // RANKLOG_RUN_H_
