// The only thread that writes the store: takes all waiting writes, commits them together, and
// answers each.

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

// Call Submit() from any thread. Writes are applied in the order of submission, many in one
// transaction. `done` is called on the loop's thread after the commit, or with the error of
// `apply`, which rolls back only that write.
//
// A failed commit:
//   no space, a read-only file   retried until it succeeds; meanwhile nothing is answered, and
//   system, a removed file       full() makes the readers of streams stop
//   any other error              its writes are answered with the error; the ranks still have their
//                                rows and send them again
//
// A second thread runs the WAL checkpoints while there are writes, so that commits do not wait for
// them.
class StoreLoop {
 public:
  struct Write {
    // May be called again if a commit failed.
    absl::AnyInvocable<absl::Status(storage::Store&)> apply;
    absl::AnyInvocable<void(absl::Status)> done;  // may be null
    size_t bytes = 0;     // memory held; for flow control and for early commits
    bool urgent = false;  // commit without waiting for `commit_interval`
  };
  struct Options {
    absl::Duration commit_interval = absl::Milliseconds(50);  // ack < 100 ms; at most 20 commits/s
    size_t commit_bytes = 4 << 20;
    size_t max_queued_bytes = 64 << 20;  // a producer that sees full() waits for its write's `done`
    // After a commit that failed for lack of space or on a read-only file system.
    absl::Duration retry_interval = absl::Seconds(1);
    absl::Duration checkpoint_interval = absl::Seconds(1);  // keeps the WAL short
    // Called on the loop's thread when commits start to fail or succeed again; may be null.
    std::function<void(const absl::Status&)> on_outcome = nullptr;
    bool threads = true;  // false: work happens only in Step() and Checkpoint(), on one thread
  };
  struct Counters {
    uint64_t writes = 0;
    uint64_t refused_writes = 0;  // `apply` returned an error
    uint64_t commits = 0;
    uint64_t failed_commits = 0;
    uint64_t checkpoints = 0;
    DurationHistogram commit_time;  // of successful commits, with their writes
    std::string last_error;         // empty: the last commit succeeded
  };

  StoreLoop(std::unique_ptr<storage::Store> store, Options options);
  ~StoreLoop();  // calls Stop()

  // Queues a write. From any thread; does not block. After Stop(), `done` is called at once with
  // kUnavailable.
  void Submit(Write write) ABSL_LOCKS_EXCLUDED(mutex_);
  // Submits and waits for the commit. Do not call it on the loop's thread. Without threads, it
  // commits all waiting writes. If the disk is full then, only this write is dropped, with
  // kUnavailable.
  absl::Status SubmitAndWait(absl::AnyInvocable<absl::Status(storage::Store&)> apply,
                             bool urgent = true) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether max_queued_bytes are queued. Readers of streams should pause while it is true.
  bool full() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Time since the last beat of the loop's thread; see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const { return pulse_.Silence(steady_now); }
  // False: the store's file was removed. No write is answered any more until Stop().
  bool store_in_place() const { return store_->InPlace(); }
  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Without threads: commits and answers all waiting writes. Returns when to call it again because
  // a commit failed for lack of space; infinite if no retry is needed.
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs one WAL checkpoint. Without threads, the caller must do this.
  void Checkpoint();

  // From now on, a failed commit is not retried: its writes are answered kUnavailable.
  void StopRetrying() ABSL_LOCKS_EXCLUDED(mutex_);

  // Commits the submitted writes, then ends the threads. Writes that cannot be committed, and later
  // ones, are answered kUnavailable. Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  // Waits for writes and for more to join the commit. An empty result: the loop must end.
  std::deque<Write> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the waiting writes must be committed now.
  bool MustCommitNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Applies and commits all of `writes` once. `statuses` receives the answers. After an error,
  // nothing was committed.
  absl::Status TryCommit(std::deque<Write>& writes, std::vector<absl::Status>& statuses);
  // Commits and answers unfinished_. False: the commit must be retried, and nothing was answered.
  bool CommitAndAnswer() ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the result of a commit and logs a change. True if the commit must be retried.
  bool ShouldRetry(const absl::Status& committed, absl::Duration took) ABSL_LOCKS_EXCLUDED(mutex_);
  void WaitToRetry() ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops the last submitted write without an answer.
  void DropLast() ABSL_LOCKS_EXCLUDED(mutex_);
  void Checkpoints() ABSL_LOCKS_EXCLUDED(mutex_);

  // Used only on the loop's thread, except by Checkpoint().
  const std::unique_ptr<storage::Store> store_;
  const Options options_;
  // Taken from the queue and not answered; used only on the loop's thread.
  std::deque<Write> unfinished_;
  mutable absl::Mutex mutex_;
  SteadyWait changed_;  // used with mutex_: urgent_, queued_bytes_, retrying_ or stopping_
  std::deque<Write> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;
  bool retrying_ ABSL_GUARDED_BY(mutex_) = true;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // There were commits since the last checkpoint.
  bool needs_checkpoint_ ABSL_GUARDED_BY(mutex_) = false;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  absl::StatusCode outcome_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;  // of the last commit
  Pulse pulse_;
  std::thread checkpoint_thread_;
  std::thread thread_;  // last: starts after all other members exist
};

// For users: that commits fail with this status, and what to do; or that they succeed again.
std::string OutcomeText(const absl::Status& committed);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_STORE_LOOP_H_
