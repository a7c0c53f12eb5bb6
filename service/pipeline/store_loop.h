// The one thread that writes the store: takes all writes that wait, commits them together, answers
// each.

#ifndef SERVICE_PIPELINE_STORE_LOOP_H_
#define SERVICE_PIPELINE_STORE_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/duration_histogram.h"
#include "service/base/pulse.h"
#include "service/base/steady_wait.h"
#include "service/storage/store.h"

namespace ranklog::pipeline {

// Submit() from any thread. A write is applied in the order of submission, in a transaction with
// its neighbours; `done` is called on the loop's thread after the commit, or with the error of
// `apply`, which undoes that write alone. A commit that fails for want of space, or on a file
// system that is read-only or a file that was removed, is tried again until it succeeds: meanwhile
// nothing is answered, and `full()` tells the readers of streams to stop. A commit that fails
// otherwise answers its writes with the error: the ranks still have their rows, and send them
// again.
//
// A second thread moves the log of writes into the database file while there are writes, so that no
// commit waits for that.
class StoreLoop {
 public:
  struct Write {
    absl::AnyInvocable<absl::Status(storage::Store&)>
        apply;                                    // may be called again if a commit failed
    absl::AnyInvocable<void(absl::Status)> done;  // may be null
    size_t bytes = 0;     // of memory held; for flow control and for committing early
    bool urgent = false;  // commit without waiting for the timer
  };
  struct Options {
    absl::Duration commit_interval = absl::Milliseconds(50);  // ack < 100 ms; 20 commits/s at most
    size_t commit_bytes = 4 << 20;
    size_t max_queued_bytes = 64 << 20;  // a producer that sees full() waits for its write's `done`
    absl::Duration retry_interval =
        absl::Seconds(1);  // after a commit that found the disk full or read-only
    absl::Duration checkpoint_interval = absl::Seconds(1);  // keeps the log of writes short
    // Called on the loop's thread when commits begin to fail, or succeed again; null: nobody asks.
    std::function<void(const absl::Status&)> on_outcome = nullptr;
    bool threads = true;  // false: nothing happens but in Step() and Checkpoint(), on one thread
  };
  struct Counters {
    uint64_t writes = 0;
    uint64_t refused_writes = 0;  // `apply` returned an error
    uint64_t commits = 0;
    uint64_t failed_commits = 0;
    uint64_t checkpoints = 0;
    DurationHistogram commit_time;  // of those that succeeded, with the writes
    std::string last_error;         // empty: the last commit succeeded
  };

  StoreLoop(std::unique_ptr<storage::Store> store, Options options);
  ~StoreLoop();  // Stop()

  void Submit(Write write) ABSL_LOCKS_EXCLUDED(mutex_);
  // Submits and waits for the commit; not from the loop's own thread. Without threads it commits
  // all that waits; if the disk is full then, this write alone is given up: kUnavailable.
  absl::Status SubmitAndWait(absl::AnyInvocable<absl::Status(storage::Store&)> apply,
                             bool urgent = true) ABSL_LOCKS_EXCLUDED(mutex_);
  bool full() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of its thread: see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }
  // False: the store's file was removed. Nothing is answered any more, until Stop().
  bool store_in_place() const { return store_->InPlace(); }
  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Without threads: commits all that waits, and answers it. Returns how long until a commit that
  // found the disk full should be tried again by the next call; infinite if there is none.
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_);
  // Moves the log of writes into the database file once; without threads it is the caller's task.
  void Checkpoint();

  // From now on a commit that fails is not tried again: its writes are answered kUnavailable.
  void StopRetrying() ABSL_LOCKS_EXCLUDED(mutex_);

  // Commits what was submitted, then ends the threads. What cannot be committed, and what is
  // submitted later, is answered kUnavailable. Twice is harmless.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  // Waits for writes and for their neighbours; none: the loop is to end.
  std::deque<Write> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether what waits should not wait for neighbours.
  bool Hurry() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Applies and commits all of `writes` once; `statuses` gets what to answer. An error: nothing was
  // committed.
  absl::Status TryCommit(std::deque<Write>& writes, std::vector<absl::Status>& statuses);
  // Commits unfinished_, and answers it unless the commit should be tried again: false.
  bool CommitAndAnswer() ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the outcome of a commit and says a change; true if the commit should be tried again.
  bool ShouldRetry(const absl::Status& committed, absl::Duration took) ABSL_LOCKS_EXCLUDED(mutex_);
  void WaitToRetry() ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets the last write that was submitted, unanswered.
  void DropLast() ABSL_LOCKS_EXCLUDED(mutex_);
  void Checkpoints() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<storage::Store>
      store_;  // used by the loop's thread only, but for Checkpoint()
  const Options options_;
  std::deque<Write> unfinished_;  // taken from the queue and not answered; of the loop's thread
  mutable absl::Mutex mutex_;
  SteadyWait changed_;  // goes with mutex_: urgent_, queued_bytes_, retrying_ or stopping_
  std::deque<Write> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;
  bool retrying_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool unchecked_ ABSL_GUARDED_BY(mutex_) = false;  // there were commits since the last checkpoint
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  absl::StatusCode outcome_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;  // of the last commit
  Pulse pulse_;
  std::thread checkpoint_thread_;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_STORE_LOOP_H_
