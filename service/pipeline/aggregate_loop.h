// Makes the rows of runs from the rows of ranks: reads the store, and submits the results to the
// store loop.

#ifndef SERVICE_PIPELINE_AGGREGATE_LOOP_H_
#define SERVICE_PIPELINE_AGGREGATE_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/pulse.h"
#include "service/base/steady_wait.h"
#include "service/pipeline/live_run.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {

// Runs one thread. For each running run it holds the open steps and at most one unanswered write in
// memory. All other rows stay in the store: when ranks are faster than this loop, rows wait there.
// The thread sleeps until it is notified or a deadline passes.
//
// Chooses the primary of a run that waits for one (aggregate/strategy.h).
//
// Closes a run when all its streams have ended, all their rows are aggregated, and every local rank
// was seen or `close_wait` has passed.
//
// If a write or read of a run fails, the run is opened again from the store after `retry_interval`.
class AggregateLoop {
 public:
  struct Options {
    LiveRun::Options run;
    // Minimum time between two rounds after notifications.
    absl::Duration interval = absl::Milliseconds(250);
    absl::Duration retry_interval = absl::Seconds(1);
    size_t max_open_values = 2 << 20;  // doubles held for open steps, over all runs: 16 MiB
    // Submitted to the store and not yet committed, over all runs.
    size_t max_written_bytes = 16 << 20;
    // Called like `on_rows`, for runs whose primary was chosen. The choice also fixes the run's
    // destinations.
    std::function<void(int64_t run)> on_primary_chosen = nullptr;
    // Called like `on_rows`, for runs that are closed as failed or crashed.
    std::function<void(int64_t run)> on_bad_end = nullptr;
  };
  struct Counters {
    uint64_t live_runs = 0;
    uint64_t made_rows = 0;
    uint64_t late_rows = 0;  // late rows found since the start
    uint64_t open_values = 0;
    uint64_t errors = 0;  // reads and writes that failed
    // Errors of runs whose last try failed, by run. No rows are made for such a run. The loop
    // retries each second.
    std::map<int64_t, std::string> stopped;
  };

  // `store` must outlive this object. `steady_clock` must never go back. `on_rows` is called for
  // runs that have new rows or are closed, on the store loop's thread after the commit. It must
  // stay callable until the store loop has stopped.
  AggregateLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader,
                std::function<absl::Time()> steady_clock, std::function<void(int64_t run)> on_rows,
                Options options);
  ~AggregateLoop();  // calls Stop()

  // Starts the thread. The first step opens the runs that were running when the daemon stopped.
  void Start();
  // Call it after the commit of a new stream, new rows, new progress or the end of a stream of the
  // run. From any thread.
  void Notify(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the thread. Submitted writes are still committed. Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // One round of the thread, for tests: handles every run that has work. Returns the time until the
  // next deadline.
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_);
  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Time since the last beat of the loop's thread; see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

 private:
  // A submitted write and its answer; shared with the closures of the write.
  struct Written {
    RunWrite write;
    bool closed = false;
    absl::Status status;
  };
  // Messages to this loop; shared with the closures of writes, which may run after this object is
  // destroyed.
  struct Inbox {
    absl::Mutex mutex;
    SteadyWait changed;  // used with the mutex; wakes the thread for any of these
    std::set<int64_t> runs ABSL_GUARDED_BY(mutex);
    std::map<int64_t, std::shared_ptr<Written>> answers ABSL_GUARDED_BY(mutex);  // by run
    // There is more to read: do not wait for `interval`.
    bool at_once ABSL_GUARDED_BY(mutex) = false;
    bool stopping ABSL_GUARDED_BY(mutex) = false;
  };
  struct Entry {
    std::unique_ptr<LiveRun> live;  // null: must be opened
    bool writing = false;
    bool due = false;  // a notification arrived
    absl::Time retry_at = absl::InfinitePast();
    std::string last_error;  // already logged
  };

  void Run();
  void TakeUp();
  void TakeMessages();
  void TakeAnswer(int64_t run, const Written& written);
  void StepRun(int64_t run, Entry& entry, absl::Time now);
  void Submit(int64_t run, RunWrite write);
  void Failed(int64_t run, Entry& entry, const absl::Status& status);
  size_t OpenValues() const;

  StoreLoop* const store_;
  const std::unique_ptr<storage::StoreReader> reader_;
  const std::function<absl::Time()> steady_clock_;
  const std::function<void(int64_t)> on_rows_;
  const Options options_;
  const std::shared_ptr<Inbox> inbox_;

  // Used only by the stepping thread.
  bool taken_up_ = false;
  std::map<int64_t, Entry> runs_;
  size_t written_bytes_ = 0;  // not yet answered

  mutable absl::Mutex mutex_;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  Pulse pulse_;
  std::thread thread_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_AGGREGATE_LOOP_H_
