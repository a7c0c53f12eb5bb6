// Sends what the aggregate has made to the trackers: a few workers that share the runs.

#ifndef SERVICE_PIPELINE_DELIVER_LOOP_H_
#define SERVICE_PIPELINE_DELIVER_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/base/duration_histogram.h"
#include "service/base/pulse.h"
#include "service/base/steady_wait.h"
#include "service/deliver/backend.h"
#include "service/model/run.h"
#include "service/pipeline/delivery_schedule.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/store.h"

namespace ranklog::pipeline {

// A task is one run's delivery to one tracker. Whichever worker is free makes the next step, in the
// order of DeliverySchedule. What a step reports is stored before the task's next step is made; if
// that fails the delivery is made anew from what is stored. A step that hangs holds up one worker,
// and nothing else of the daemon. A dead tracker holds up no more, since its deliveries wait for each
// other (deliver/gate.h); one that answers some requests and hangs at others holds up about half of
// the workers. A step that crashes the process leaves a mark (crash_marks.h). A delivery that is set
// apart for that is no task until AddRun() finds that it is to be tried again.
//
// Start once; all else from any thread.
class DeliverLoop {
 public:
  using MakeDelivery = std::function<std::unique_ptr<deliver::RunDelivery>(const model::Run&,
                                                                           const model::Delivery&)>;
  // What one worker works with; used on its thread only, but what it makes is used by all of them,
  // one at a time. `make` returns null for a kind of destination that it does not know: such a
  // delivery stays pending.
  struct Worker {
    std::unique_ptr<storage::StoreReader> reader;
    MakeDelivery make;
    std::function<void()> cancel;  // from any thread: ends the request under way; may be null
  };
  struct Options {
    absl::Duration notify_interval =
        absl::Milliseconds(500);  // new rows make a task due at most so often
    absl::Duration retry_interval =
        absl::Seconds(1);                        // after the store could not be read or written
    absl::Duration silence = absl::Seconds(10);  // a server that long without an answer is said
    std::function<absl::Time()> steady_clock = SteadyNow;  // never goes back
    std::function<absl::Time()> wall_clock = absl::Now;    // stamps dead letters
    // Called with what was stored: after each step, on the thread that made it; of a run that waits
    // for a silent server, on the store's. Null: nobody asks.
    std::function<void(const deliver::StepResult&)> on_step = nullptr;
  };
  // All deliveries to trackers of one kind, since the start.
  struct Destination {
    uint64_t delivered_rows = 0;  // refused ones are not among them
    uint64_t refused_rows = 0;
    uint64_t errors = 0;                             // steps that ended with one
    absl::Time last_success = absl::InfinitePast();  // an exchange without an error; wall clock
    std::string last_error;                          // empty: none
    absl::Time last_error_time = absl::InfinitePast();
    DurationHistogram exchange_time;  // of steps that made one, answered or not
  };
  struct Counters {
    uint64_t steps = 0;
    uint64_t failing = 0;  // tasks whose last exchange failed
    uint64_t pending = 0;  // tasks that are not complete
    uint64_t dead_letters = 0;
    uint64_t set_apart = 0;  // deliveries that nobody tries, since they crash whoever does
    std::map<std::string, Destination> destinations;  // by kind; of those that there was one for
  };

  // At least one worker. A server gets a further one while more are free than are there.
  // `store` outlives this.
  DeliverLoop(StoreLoop* store, std::vector<Worker> workers, Options options);
  ~DeliverLoop();  // Stop()

  // Starts the workers; they take up what was pending when the daemon last stopped.
  void Start();
  // What the workers do, on the calling thread and without waiting: the next thing that is due.
  // Returns how long until there is more to do though nobody notifies; zero if there
  // may be at once. Instead of Start().
  absl::Duration Step() ABSL_LOCKS_EXCLUDED(mutex_);

  // A run has a new destination, or was started again: what failed is tried at once.
  void AddRun(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);
  // A run has new rows, or has ended.
  void NotifyRows(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);
  // A run was removed from the store, whatever was left to be sent.
  void OnRemoved(int64_t run) ABSL_LOCKS_EXCLUDED(mutex_);

  // Steps without waiting for more to gather, until every row of every run is delivered (and the
  // ends of those that ended), but for at most `timeout`. True: all is delivered, and no delivery
  // is set apart.
  bool Drain(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Cancels the requests under way, and ends the workers. Twice is harmless.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The longest of its threads': see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const;

 private:
  using TaskKey = DeliverySchedule::Key;
  struct Server {
    DeliverySchedule schedule;                   // of its tasks that are not stepping
    size_t stepping = 0;                         // tasks
    uint64_t last_turn = 0;                      // when a task was last taken, in turns_
    absl::Time answered = absl::InfinitePast();  // a request, last
    // Since when a request has had no answer, and no other one had; not known before it took long,
    // or failed.
    absl::Time silent_since = absl::InfiniteFuture();
  };
  struct Task {
    Server* server = nullptr;
    absl::Time last_step = absl::InfinitePast();
    absl::Time step_began = absl::InfinitePast();
    bool live = true;
    bool stepping = false;   // and so not in its server's schedule
    bool notified = false;   // while it was stepping
    bool reopened = false;   // while it was stepping
    bool removed = false;    // its run is no longer in the store
    bool delivered = false;  // nothing was left to send at the last step
    bool silent = false;     // its last_error is, or is about to be, that its server is silent
    std::string last_error;
    std::string run_id;  // as the tracker knows it, for the log; known when `delivery` was made
    // Of the thread that steps: how far Count() has counted.
    uint64_t sent_rows = 0;
    uint64_t refused_rows = 0;
    std::unique_ptr<deliver::RunDelivery> delivery;  // of the thread that steps
    // Of the thread that steps: what a delivery that had to be made anew was told to wait for. Its
    // successor does not know.
    absl::Time not_before = absl::InfinitePast();
  };
  struct Silent {  // a task that may have to wait for its server
    TaskKey key;
    absl::Time since;
    absl::Time step_began;  // its last one
  };
  struct Job {  // what a worker does next: a step of `task`, or a look for the deliveries of `run`
    bool stop = false;
    bool draining = false;
    int64_t run = 0;
    TaskKey key;
    Task* task = nullptr;
    std::vector<Silent> silent;  // instead: what these wait for is to be stored
  };

  void Run(size_t index);
  void Do(const Job& job, Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  Job Next() ABSL_LOCKS_EXCLUDED(mutex_);
  // What there is to do now; false: nothing before `next`.
  bool FindJob(Job* job, absl::Time* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The server whose task is next, with a task that is due: of those that may have one more worker,
  // the one with the fewest. Null: none before `next`.
  Server* FindServer(absl::Time now, absl::Time* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Which tasks may have to wait for a server that is silent; false: none. A request is not
  // interrupted to say so, and who waits behind it makes no step: an idle worker says it.
  bool FindSilent(Job* job, absl::Time* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores, for those of them that have something to send, that their server is silent.
  void TellSilence(const Job& job, Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // On the store's thread. False: a step of the task began or ended meanwhile. It knows better, and
  // what it knows is stored after this.
  bool TakeSilence(const Silent& silent, const std::string& error) ABSL_LOCKS_EXCLUDED(mutex_);
  // After a step: what was stored of a silent server is over, unless it goes on.
  void LookAtSilence(const Job& job, deliver::StepResult* result) ABSL_LOCKS_EXCLUDED(mutex_);
  // What the store cannot tell now is asked for again.
  void LookFor(int64_t run, Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddTask(const model::Delivery& delivery, const model::Run& run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a task that is not stepping: its next step is due, and knows nothing of those before.
  void TryNow(const TaskKey& key, Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsRemoved(const Task& task) const ABSL_LOCKS_EXCLUDED(mutex_);
  void StepTask(const Job& job, Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a delivery that reported itself complete was not stored as such: the run goes on.
  bool Reopened(const model::Delivery& delivery, Worker& worker) const;
  // Makes the delivery of a task from what is stored. False: try later.
  bool Make(const Job& job, Worker& worker);
  // Counts what a step came to, which is stored by now.
  void Count(const Job& job, const deliver::StepResult& result, absl::Duration took)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Save(deliver::StepResult& result);
  bool AllSent(const model::Delivery& delivery, Worker& worker) const;
  // The step of a task is over. `result`: what it reported; null if there was none.
  void Finish(const Job& job, absl::Duration wait, const deliver::StepResult* result,
              bool delivered) ABSL_LOCKS_EXCLUDED(mutex_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Schedule(const TaskKey& key, const Task& task, absl::Time due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StoreLoop* const store_;
  std::vector<Worker> workers_;  // each of its own thread
  const Options options_;
  mutable absl::Mutex mutex_;
  std::map<TaskKey, Task> tasks_ ABSL_GUARDED_BY(mutex_);  // addresses are stable while stepping
  // By a tracker's kind and address; addresses are stable.
  std::map<std::pair<std::string, std::string>, Server> servers_ ABSL_GUARDED_BY(mutex_);
  size_t stepping_ ABSL_GUARDED_BY(mutex_) = 0;  // tasks of all servers
  uint64_t turns_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time next_silence_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // when to look for it
  std::set<TaskKey> set_apart_ ABSL_GUARDED_BY(mutex_);
  std::set<int64_t> runs_to_look_for_ ABSL_GUARDED_BY(mutex_);
  absl::Time no_look_before_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  SteadyWait changed_;  // goes with mutex_: changes_, stopping_, or what Drain() waits for
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;   // of when there is something to do
  size_t next_worker_ = 0;                         // of Step()
  bool taken_up_ ABSL_GUARDED_BY(mutex_) = false;  // what was pending at the start
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;  // a look is under way
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t dead_letters_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Destination> destinations_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pulse> pulses_;  // of the workers
  std::vector<std::thread> threads_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVER_LOOP_H_
