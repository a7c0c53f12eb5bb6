// Sends the aggregated rows to the trackers: a few workers share all runs.

#ifndef SERVICE_PIPELINE_DELIVERY_DELIVER_LOOP_H_
#define SERVICE_PIPELINE_DELIVERY_DELIVER_LOOP_H_

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
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/base/pulse.h"
#include "service/base/steady_wait.h"
#include "service/deliver/run_delivery.h"
#include "service/model/run.h"
#include "service/pipeline/delivery/delivery_tasks.h"
#include "service/pipeline/delivery/delivery_totals.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {

// Each free worker takes the next task (delivery_tasks.h) and makes a step of it. The result of a
// step is stored before the next step of the task. If it cannot be stored, the delivery is created
// again from the stored state.
//
// What a failure can delay:
//   a step that hangs    one worker, and nothing else of the daemon
//   a dead tracker       one worker: its deliveries share a circuit breaker (deliver/circuit_breaker.h)
//   a tracker that answers some requests and hangs at others
//                        about half of the workers
//
// A step that crashes the process leaves a mark (crash_marks.h). A delivery that is set apart for
// that has no task until AddRun() finds that it may be tried again.
//
// Call Start() once; call all other functions from any thread.
class DeliverLoop {
 public:
  using MakeDelivery = std::function<std::unique_ptr<deliver::RunDelivery>(const model::Run&,
                                                                           const model::Delivery&)>;
  // The resources of one worker, used only on its thread. The deliveries that `make` creates are
  // used by all workers, one at a time. `make` returns null for an unknown kind of destination;
  // such a delivery stays pending.
  struct Worker {
    std::unique_ptr<storage::StoreReader> reader;
    MakeDelivery make;
    std::function<void()> cancel;  // from any thread: ends the current request; may be null
  };
  struct Options {
    // Minimum time between two steps of a task because of new rows.
    absl::Duration notify_interval = absl::Milliseconds(500);
    absl::Duration retry_interval = absl::Seconds(1);  // after a failed read or write of the store
    // If a server does not answer for this long, that is reported.
    absl::Duration silence = absl::Seconds(10);
    std::function<absl::Time()> steady_clock = SteadyNow;  // must never go back
    std::function<absl::Time()> wall_clock = absl::Now;    // for the time stamps of dead letters
    // Called with the stored result after each step, on the thread that made it, in the order of
    // the delivery's steps. For a run that waits for a silent server, called on the store loop's
    // thread. May be null.
    std::function<void(const deliver::StepResult&)> on_step = nullptr;
  };
  struct Counters {
    uint64_t steps = 0;
    uint64_t failing = 0;  // tasks whose last exchange failed
    uint64_t pending = 0;  // tasks that are not complete
    uint64_t dead_letters = 0;
    uint64_t set_apart = 0;  // deliveries that are not tried because they crash the process
    // By kind; only kinds that had a delivery.
    std::map<std::string, DeliveryTotals::Destination> destinations;
  };

  // Needs at least one worker. A server gets another worker only if more workers are free than work
  // for this server. `store` must outlive this object.
  DeliverLoop(StoreLoop* store, std::vector<Worker> workers, Options options);
  ~DeliverLoop();  // calls Stop()

  // Starts the workers. They continue with the deliveries that were pending when the daemon
  // stopped.
  void Start();
  // Does the next due work of the workers, on the calling thread and without waiting. Returns the
  // time until more work is due without a notification; zero if there may be more work now. Use it
  // instead of Start().
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_);

  // Call it when a run has a new destination or was started again. A delivery that failed is tried
  // at once.
  void AddRun(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);
  // Call it when a run has new rows or has ended.
  void NotifyRows(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);
  // Call it when a run was removed from the store, even if rows were not sent.
  void OnRemoved(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends without waiting for full batches, until all rows of all runs and the ends of ended runs
  // are delivered, or until `timeout` has passed. True if everything is delivered and no delivery
  // is set apart. May be called again, and goes on between the calls.
  bool Drain(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Cancels the current requests and ends the workers. Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Longest time since the last beat of any worker thread; see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const;

 private:
  using Task = DeliveryTasks::Task;
  struct Job {  // the next work of a worker: a step of `task`, or reading the deliveries of `run`
    bool stop = false;
    bool draining = false;
    int64_t run = 0;
    DeliveryTasks::Key key;
    Task* task = nullptr;
    // Or instead: tasks whose wait for a silent server must be stored.
    std::vector<DeliveryTasks::Silent> silent;
  };

  void Run(size_t index);
  void Do(const Job& job, Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  Job Next() ABSL_LOCKS_EXCLUDED(mutex_);
  // Finds work that is due now. False: no work is due before `next`.
  bool FindJob(Job* job, absl::Time* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores the silence of the server for those of the tasks that have rows to send.
  void StoreSilence(const Job& job, Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the deliveries of `run` from the store. If that fails, the read is repeated later.
  void LoadDeliveries(int64_t run, Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsRemoved(const Task& task) const ABSL_LOCKS_EXCLUDED(mutex_);
  void StepTask(const Job& job, Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a delivery that reported itself complete is not stored as complete, because its run
  // continues.
  bool Reopened(const model::Delivery& delivery, Worker& worker) const;
  // After a result that could not be stored: makes sure that it never shows in the store, because
  // the next step may undo its effect at the tracker. False: try later.
  bool Settle(Task& task);
  // Creates the delivery of a task from the stored state. False: try later.
  bool Make(const Job& job, Worker& worker);
  absl::Status Save(deliver::StepResult& result);
  bool AllSent(const model::Delivery& delivery, Worker& worker) const;
  // Ends the step of a task. `result` is null if the step reported nothing.
  void Finish(const Job& job, absl::Duration wait, const deliver::StepResult* result,
              bool delivered) ABSL_LOCKS_EXCLUDED(mutex_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StoreLoop* const store_;
  std::vector<Worker> workers_;  // each used only on its own thread
  const Options options_;
  mutable absl::Mutex mutex_;
  DeliveryTasks tasks_ ABSL_GUARDED_BY(mutex_);
  std::set<int64_t> runs_to_look_for_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_load_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  SteadyWait changed_;  // used with mutex_: changes_, stopping_, or the condition of Drain()
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;  // counts changes that may make work due
  size_t next_worker_ = 0;                        // used only by Step()
  // The pending deliveries of the start were read.
  bool pending_loaded_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;  // a worker reads deliveries
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  DeliveryTotals totals_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pulse> pulses_;  // one for each worker
  std::vector<std::thread> threads_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVERY_DELIVER_LOOP_H_
