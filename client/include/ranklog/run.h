#ifndef RANKLOG_RUN_H_
#define RANKLOG_RUN_H_

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ranklog/export.h"
#include "ranklog/settings.h"
#include "ranklog/value.h"

namespace ranklog {

// What became of the calls of this process, over all its threads. Totals since Init().
struct Stats {
  uint64_t rows_logged = 0;   // Log() returned true
  uint64_t rows_durable = 0;  // acknowledged by the daemon: they survive a power cut
  uint64_t lost_ring_full =
      0;  // the spool was full: no daemon for minutes, or spool_bytes too small
  // A key or a value that cannot be logged, or a Log() in a signal handler that
  // interrupted one.
  uint64_t lost_invalid = 0;
  uint64_t lost_step_behind = 0;  // a step below the last of its thread
  uint64_t lost_too_large = 0;    // a row over half of the spool
  uint64_t lost_after_finish = 0;
  // Log() returned true, but the program has overwritten the spool since: these rows and those
  // after them cannot be sent. The daemon takes what it can when the process has ended.
  uint64_t lost_damaged = 0;
  uint64_t updates_pending = 0;  // Config(), Summary(), DefineMetric() not yet acknowledged
  bool connected = false;        // a daemon answers
  std::string
      last_error;  // why a row was last refused, or why no daemon answers; empty if all is well
};

// What Finish() and Flush() achieved.
enum class FlushResult {
  kDurable,  // all of it is on this node's disk, and at the tracker if Finish() waited for that
  kSpooled,  // the deadline passed; the rest is in the spool, and the daemon will take it from
             // there
  // All of it is on this node's disk, but Settings::delivery_timeout passed, or the daemon stopped,
  // before the tracker had all of it; the daemon sends the rest.
  kUndelivered,
};

// How charts and the summary treat a metric.
// The empty braces let a caller name some fields only, without a warning.
struct MetricOptions {
  std::string step_metric{};  // the metric to take as x axis
  bool step_sync = true;      // rows that lack the step metric get its last number
  bool hidden = false;
  // Of min max mean last first best none. `best` is the min or the max, by the goal; without one it
  // has no effect. (W&B's client knows it no more; there it is a figure like the others.)
  std::vector<std::string> summary{};
  std::string goal{};  // minimize, maximize
};

namespace internal {
class RingWriter;
class RunState;
struct RowShape;
}  // namespace internal

// A fixed list of keys, checked and interned once: the cheapest way to log. Made by Run::Row();
// copies are cheap and may be used from any thread.
class RANKLOG_EXPORT RowHandle {
 public:
  RowHandle() = default;  // refers to nothing; logging with it is an invalid row

 private:
  friend class Run;
  std::shared_ptr<const internal::RowShape> shape_;
};

// A key, checked and interned once. Made by Run::MetricKey().
class RANKLOG_EXPORT MetricHandle {
 public:
  MetricHandle() = default;

 private:
  friend class Run;
  friend class internal::RingWriter;
  const std::string* key_ = nullptr;  // lives for ever; null: none
};

struct HandleValue {
  MetricHandle metric;
  double value;
};

// One rank's hold on its run. Movable; the destructor is Finish() without waiting: what was logged
// is in the spool, and the daemon takes it from there. The exit code is that of the process, if it
// ends within two seconds and the daemon can see it (Linux 6.15, the same pid namespace); else 0.
// With Settings::delivery_timeout it waits as Finish() does.
//
// Any thread may call any function; each thread that logs has a ring of its own. A forked child may
// go on using it: it gets a ring and a stream of its own at its first call, and a child that never
// calls costs nothing. What a child leaves that ends without Flush() or Finish() is taken within
// seconds; at steps that its parent's rows have closed by then, it is late.
class RANKLOG_EXPORT Run {
 public:
  Run() noexcept;  // refers to nothing: Log() returns false
  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;
  ~Run();

  // Logs one row. True: the row survives this process and the daemon (see "returned" in the
  // README). False: it was not taken, and stats() counts why. Never waits, and makes no system call
  // after a thread's first row and its first large one (see Settings::spool_bytes); allocates only
  // at the first row of a shape.
  //
  // A row that is refused changes nothing but its counter. Rows without a step that follow it have
  // the steps that they had without it; ranks whose rows are to meet give their steps.
  //
  // With a step: the steps of a thread grow. The same step again merges; a smaller one is refused.
  // Rows of one step from several threads are joined, like those of ranks, however far one is
  // ahead. While others go on, a thread that logs nothing for a second is not waited for (30 s once
  // it has come back to a smaller step than the others had a second before): what it then brings
  // for a step that is closed is kept in the store, and counted as late. So is what a thread brings
  // that begins when the others' rows are at the daemon already.
  //
  // Without a step: merges into the open step, which is the largest that any thread has given, and
  // closes it for rows without a step.
  //
  // Of several values of a key at one step, in one row or in several, the last counts, be it a
  // number or a text. A row without metrics does all that, too, and counts as logged; a run has no
  // line of a step with nothing else.
  //
  // The threads of a process and the children that it forks share the open step. A process that is
  // started counts from step 0, so a job that is started again under its run id gives its steps:
  // what lies at or below the run's last one is kept in the store and counted as late. NaN and
  // infinities are values: they are kept and delivered as such, and left out of every statistic
  // over ranks, which is NaN if no rank has a finite value. Of finite values each statistic is
  // finite.
  //
  // A signal handler may log what its thread has logged before (the same keys, no larger). While it
  // interrupts another call of its thread that writes to the run, its row is refused, and counted
  // as invalid. It may call nothing else of a run.
  //
  // A thread's rows may have 10,000 different lists of keys, of 64 MiB in all; a row that would
  // need one more is invalid.
  bool Log(std::initializer_list<Metric> row) noexcept;
  bool Log(std::initializer_list<Metric> row, int64_t step) noexcept;
  bool Log(std::span<const Metric> row) noexcept;
  bool Log(std::span<const Metric> row, int64_t step) noexcept;

  // The same with keys that were checked before: 1.4 times cheaper than strings for 10 values.
  MetricHandle MetricKey(std::string_view key) noexcept;
  bool Log(std::span<const HandleValue> row) noexcept;
  bool Log(std::span<const HandleValue> row, int64_t step) noexcept;

  // The same with all keys of a row: values.size() must be that of the keys. 1.4 times cheaper than
  // strings for 10 values, 6 times for 1000.
  RowHandle Row(std::span<const std::string_view> keys) noexcept;
  RowHandle Row(std::initializer_list<std::string_view> keys) noexcept;
  bool Log(const RowHandle& row, std::span<const double> values) noexcept;
  bool Log(const RowHandle& row, std::span<const double> values, int64_t step) noexcept;

  // Merges into the run's config or summary, by top-level key. Of what Summary() and Log() say of a
  // metric the last counts; a value that is set in an open step counts as set at the step's end.
  // The values of rank 0 (of the rank whose rows the run has) go before those of other ranks.
  // False: not taken (see stats().last_error).
  bool Config(std::vector<Value::Field> config) noexcept;
  bool Summary(std::vector<Value::Field> summary) noexcept;

  // `name` may end in "*". Counts for the run's rows before it, too. False: not taken.
  bool DefineMetric(std::string_view name, const MetricOptions& options = {}) noexcept;

  // Waits until all that was logged so far is durable, at most `timeout`.
  FlushResult Flush(std::chrono::milliseconds timeout) noexcept;

  // Ends this process's part of the run. Waits until all is durable, at most
  // Settings::finish_timeout; nothing is lost if that passes. Delivery to the tracker goes on
  // without us. With Settings::delivery_timeout the rank whose rows are the run's (rank 0 under
  // kMain, local rank 0 under kNode) waits for the delivery of the whole run, the other ranks' ends
  // included: kDurable then says that the tracker has it. A run that stays on this node needs no
  // delivery, and a forked child waits for none. Twice is harmless. A Log() of another thread
  // meanwhile is either in, and durable when this says so, or refused and counted in
  // lost_after_finish.
  FlushResult Finish(int exit_code = 0) noexcept;

  Stats stats() const noexcept;

  // The settings as Init resolved them: run_id, group, rank and so on are filled in.
  const Settings& settings() const noexcept;

 private:
  friend RANKLOG_EXPORT Run Init(Settings settings) noexcept;
  std::shared_ptr<internal::RunState> state_;  // shared with the sender thread
};

// Opens a run. Returns within 10 ms whether or not a daemon, a network or a tracker exists.
// Of settings that Validate() refuses it takes something usable instead, so that no row is lost for
// a typo, and says so in the terminal and in stats().last_error.
RANKLOG_EXPORT Run Init(Settings settings) noexcept;

}  // namespace ranklog

#endif  // RANKLOG_RUN_H_
