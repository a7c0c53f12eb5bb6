// Makes the runs' rows from what the ranks have brought: reads the store, hands the results to the
// store's loop.

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
#include "service/storage/store.h"

namespace ranklog::pipeline {

// One thread. Of each run that is running it keeps what is open, at most one write under way, and
// the rest in the store: when ranks are faster than this, rows wait there. Chooses the primary
// of a run that waits for it (aggregate/strategy.h). Closes a run when all
// its streams have ended, all of it is made into rows, and every local rank was seen or
// `close_wait` went by. Sleeps until it is notified or a deadline comes.
//
// A run whose write or read failed is taken up anew from the store after `retry_interval`.
class AggregateLoop {
 public:
  struct Options {
    LiveRun::Options run;
    absl::Duration interval = absl::Milliseconds(250);  // notifications are served at most so often
    absl::Duration retry_interval = absl::Seconds(1);
    size_t max_open_values = 2 << 20;  // doubles held for open steps, over all runs: 16 MiB
    size_t max_written_bytes =
        16 << 20;  // handed to the store and not yet committed, over all runs
    // Told, as `on_rows` is, of runs whose primary was chosen, and with it where they go.
    std::function<void(int64_t run)> on_primary_chosen = nullptr;
    // Told, as `on_rows` is, of runs that are closed as failed or crashed.
    std::function<void(int64_t run)> on_bad_end = nullptr;
  };
  struct Counters {
    uint64_t live_runs = 0;
    uint64_t closed_runs = 0;
    uint64_t made_rows = 0;
    uint64_t late_rows = 0;  // found late since the start
    uint64_t open_values = 0;
    uint64_t errors = 0;  // reads and writes that failed
    // Why no rows are made of what came, by run: the last try failed. Tried again each second.
    std::map<int64_t, std::string> stopped;
  };

  // `store` outlives this. `steady_clock` never goes back. `on_rows` is told of runs that have new
  // rows or are closed, on the store loop's thread after the commit; it must stay callable until
  // the store loop has stopped.
  AggregateLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader,
                std::function<absl::Time()> steady_clock, std::function<void(int64_t run)> on_rows,
                Options options);
  ~AggregateLoop();  // Stop()

  // Starts the thread. The first step takes up the runs that were running when the daemon stopped.
  void Start();
  // A stream of the run is new, has new rows, new progress, or has ended: after the commit of it.
  // From any thread.
  void Notify(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the thread; writes under way go on. Twice is harmless.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // What the thread does, for tests: a round of every run that has something to do. Returns how
  // long until there will be something to do though nobody notifies.
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_);
  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of its thread: see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }

 private:
  // A write that was handed to the store's loop and its answer; shared with the latter's closures.
  struct Written {
    RunWrite write;
    bool closed = false;
    absl::Status status;
  };
  // What others tell this loop; shared with the closures of writes, which may come after its end.
  struct Inbox {
    absl::Mutex mutex;
    SteadyWait changed;  // goes with the mutex: any of these
    std::set<int64_t> runs ABSL_GUARDED_BY(mutex);
    std::map<int64_t, std::shared_ptr<Written>> answers ABSL_GUARDED_BY(mutex);  // by run
    bool at_once ABSL_GUARDED_BY(mutex) =
        false;  // there is more to read: do not wait for the interval
    bool stopping ABSL_GUARDED_BY(mutex) = false;
  };
  struct Entry {
    std::unique_ptr<LiveRun> live;  // null: to be opened
    bool writing = false;
    bool due = false;  // something came
    absl::Time retry_at = absl::InfinitePast();
    std::string last_error;  // said already
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

  // Of the stepping thread.
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
