// Removes delivered runs when the retention limits of the store are reached.

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
#include "service/storage/database/retention.h"
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {

// Also removes staged files that no delivery needs any more.
//
// Runs one thread, which checks every `interval`. storage/retention.h defines which runs must go;
// the transaction that removes a run checks that again. Removes one run after another. Sweeps their
// data in small slices with a pause after each, so that the ranks' commits run between them. Data
// that the previous daemon left is swept first.
class RetentionLoop {
 public:
  struct Options {
    storage::KeepLimits limits;
    absl::Duration interval = absl::Seconds(5);
    absl::Duration pause = absl::Milliseconds(50);  // between slices: at most 40 MB/s
    std::function<absl::Time()> wall_clock = absl::Now;
    std::string content_dir{};  // of staged files, which go once they are delivered; empty: none
  };
  struct Counters {
    uint64_t removed_runs = 0;
    uint64_t removed_rows = 0;   // rows of runs, without rows of ranks
    uint64_t removed_bytes = 0;  // bytes swept
  };

  // `store` must outlive this object.
  RetentionLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader, Options options);
  ~RetentionLoop();  // calls Stop()

  void Start();
  // Ends the thread after its current write. Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // One step of the thread: checks, removes a run, or sweeps a slice. Returns the time until the
  // next step.
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_);
  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Call it after another part has removed a run with this number of rows. The run is counted and
  // swept soon. From any thread.
  void OnRemoved(uint64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  // Sweeps one slice. Returns whether there may be more.
  absl::StatusOr<bool> Sweep();
  // Removes the next run that must go. False: no run must go.
  bool RemoveNext();
  void RemoveFiles();
  // Logs the runs that were removed since the last call.
  void LogRemovals();
  // Logs once that the store is too large but no run may be removed.
  void LogTooLarge(int64_t used_bytes);

  StoreLoop* const store_;
  const std::unique_ptr<storage::StoreReader> reader_;
  const Options options_;

  // Used only by the stepping thread.
  bool sweeping_ = true;
  bool too_large_ = false;                        // already logged
  std::deque<storage::RemovableRun> candidates_;  // result of the last check; the next one first
  Counters logged_;

  mutable absl::Mutex mutex_;
  SteadyWait changed_;  // used with mutex_: stopping_ or removed_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Another part removed a run that is not swept yet.
  bool removed_ ABSL_GUARDED_BY(mutex_) = false;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_RETENTION_LOOP_H_
