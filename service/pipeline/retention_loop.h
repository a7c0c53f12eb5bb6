// Removes runs that are delivered, when the store is to keep them no longer.

#ifndef SERVICE_PIPELINE_RETENTION_LOOP_H_
#define SERVICE_PIPELINE_RETENTION_LOOP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/steady_wait.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/retention.h"
#include "service/storage/store.h"

namespace ranklog::pipeline {

// One thread. Looks every `interval`; which runs go is said by storage/retention.h, and is looked
// at again in the transaction that removes one. Takes one run after the other, and sweeps what it
// held in small slices with a pause after each, so that the ranks' commits go between them. What
// the last daemon did not get to is swept first.
class RetentionLoop {
 public:
  struct Options {
    storage::KeepLimits limits;
    absl::Duration interval = absl::Seconds(5);
    absl::Duration pause = absl::Milliseconds(50);  // between slices: 40 MB/s at most
    std::function<absl::Time()> wall_clock = absl::Now;
  };
  struct Counters {
    uint64_t removed_runs = 0;
    uint64_t removed_rows = 0;   // of the runs, not of their ranks
    uint64_t removed_bytes = 0;  // swept
  };

  // `store` outlives this.
  RetentionLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader, Options options);
  ~RetentionLoop();  // Stop()

  void Start();
  // Ends the thread, after its write under way. Twice is harmless.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // What the thread does: looks, removes a run, or sweeps a slice. Returns how long until the next.
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_);
  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Somebody else has removed a run of so many rows: it is counted, and swept soon. Any thread.
  void OnRemoved(uint64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  // Sweeps a slice. Whether there may be more.
  absl::StatusOr<bool> Sweep();
  // Removes the next run that must go. False: none must.
  bool RemoveNext();
  // What is said of the runs that went since it was said last.
  void SayRound();
  // Says once that the store is too large, and nothing of it may go.
  void SayTooLarge(int64_t used_bytes);

  StoreLoop* const store_;
  const std::unique_ptr<storage::StoreReader> reader_;
  const Options options_;

  // Of the stepping thread.
  bool sweeping_ = true;
  bool too_large_ = false;                        // said
  std::deque<storage::RemovableRun> candidates_;  // as last looked for; the next one first
  Counters said_;

  mutable absl::Mutex mutex_;
  SteadyWait changed_;  // goes with mutex_: stopping_ or removed_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool removed_ ABSL_GUARDED_BY(mutex_) = false;  // by somebody else, and not swept
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_RETENTION_LOOP_H_
