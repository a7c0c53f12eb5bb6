// The deliveries that the workers of DeliverLoop make: the state of each, the servers that they go
// to, and which one is next.

#ifndef SERVICE_PIPELINE_DELIVERY_DELIVERY_TASKS_H_
#define SERVICE_PIPELINE_DELIVERY_DELIVERY_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "service/deliver/run_delivery.h"
#include "service/model/run.h"
#include "service/pipeline/delivery/delivery_schedule.h"
#include "service/pipeline/delivery/delivery_totals.h"

namespace ranklog::pipeline {

// A task is the delivery of one run to one tracker, until it is complete. A worker takes a task,
// makes one step of it, and finishes the step. Times are those of a steady clock.
//
// Not thread-safe. Does no I/O.
class DeliveryTasks {
 public:
  using Key = DeliverySchedule::Key;
  struct Options {
    size_t workers = 1;
    absl::Duration notify_interval;  // minimum time between two steps of a task because of new rows
    absl::Duration silence;          // a server without an answer for that long is reported
  };
  struct Server {
    DeliverySchedule schedule;                   // its tasks that are not stepping
    size_t stepping = 0;                         // number of tasks that are stepping
    uint64_t last_turn = 0;                      // value of turns_ when a task was last taken
    absl::Time answered = absl::InfinitePast();  // time of the last answered request
    // Start of the oldest request without an answer, if no other request was answered since. Set
    // only after the request took long or failed.
    absl::Time silent_since = absl::InfiniteFuture();
  };
  struct Task {
    Server* server = nullptr;
    absl::Time last_step = absl::InfinitePast();
    absl::Time step_began = absl::InfinitePast();
    bool live = true;
    bool stepping = false;   // a worker makes a step, so the task is not in the schedule
    bool notified = false;   // notified during the current step
    bool reopened = false;   // reopened during the current step
    bool removed = false;    // its run was removed from the store
    bool delivered = false;  // nothing was left to send after the last step
    bool silent = false;     // last_error reports a silent server, or is about to
    std::string last_error;
    std::string run_id;  // the run's id at the tracker, for the log; set when `delivery` is made
    AnsweredRows counted_rows;  // in the totals; used only by the stepping thread
    std::unique_ptr<deliver::RunDelivery> delivery;  // used only by the stepping thread
    // Used only by the stepping thread: the last result could not be stored, but a daemon that
    // starts now may find it stored (Store::Commit()).
    bool unsettled = false;
    // Used only by the stepping thread: keeps the wait of a delivery that was discarded, because
    // its replacement does not know it.
    absl::Time not_before = absl::InfinitePast();
  };

  explicit DeliveryTasks(Options options) : options_(options) {}

  // Adds the task of a pending delivery. If it exists and its last step failed, the next step is
  // due now. A delivery that is set apart gets no task.
  void Add(const model::Delivery& delivery, const model::Run& run);
  // The run has new rows or has ended. Returns whether a step is due earlier than before.
  bool NotifyRows(int64_t run, absl::Time now);
  // The run was removed from the store: its tasks end at their next Finish().
  void RemoveRun(int64_t run, absl::Time now);
  // Makes a step of every task due now.
  void StepAll();
  // Whether nothing was left to send after the last step of every task.
  bool AllDelivered() const;

  // Takes the next task that is due, for a step. The task stays valid until Finish(). Null: no task
  // is due before `next`. A server gets another worker only if more workers are free than work for
  // this server. The server with the fewest workers is first.
  Task* Take(absl::Time now, Key* key, absl::Time* next);

  struct StepEnd {
    absl::Duration wait;                          // until the next step
    const deliver::StepResult* result = nullptr;  // null if the step reported nothing
    bool delivered = false;                       // nothing is left to send
    bool repeat = false;                          // the next step is due now
  };
  // How the error of a task changed, for the log.
  struct ErrorChange {
    bool changed = false;
    std::string error;  // empty: the tracker accepts rows
    std::string run_id;
  };
  // Ends the step of a task.
  ErrorChange Finish(const Key& key, Task& task, const StepEnd& end, absl::Time now);

  // A task that may be waiting for a silent server.
  struct Silent {
    Key key;
    absl::Time since;
    absl::Time step_began;  // of its last step
  };
  // Finds tasks that may be waiting for a silent server. Empty: no task can be in that state until
  // `next`. A hanging request is not interrupted, and tasks that wait behind it make no step. So an
  // idle worker reports the silence for them. It calls SetSilence() for the tasks that have rows to
  // send, and then EndSilent() for all.
  std::vector<Silent> FindSilent(absl::Time now, absl::Time* next);
  // False: a step of the task began or ended in the meantime. Its result is newer.
  bool SetSilence(const Silent& silent, const std::string& error);
  // `stored`: the errors of SetSilence() are stored.
  void EndSilent(const std::vector<Silent>& silent, bool stored);
  // Called after a step, before its result is stored: clears a stored silence of the server unless
  // the silence continues.
  void UpdateSilence(Task& task, absl::Time now, deliver::StepResult* result);

  size_t size() const { return tasks_.size(); }
  size_t failing() const;  // tasks whose last exchange failed
  size_t set_apart() const { return set_apart_.size(); }

 private:
  // For a task that is not stepping: makes its next step due now, without the state of earlier
  // steps.
  void TryNow(const Key& key, Task& task);
  static void Schedule(const Key& key, const Task& task, absl::Time due);
  Server* FindServer(absl::Time now, absl::Time* next);

  const Options options_;
  std::map<Key, Task> tasks_;  // addresses are stable while stepping
  // By kind and address of the tracker; addresses are stable.
  std::map<std::pair<std::string, std::string>, Server> servers_;
  size_t stepping_ = 0;  // stepping tasks of all servers
  uint64_t turns_ = 0;
  absl::Time next_silence_ = absl::InfinitePast();  // next check for silence
  std::set<Key> set_apart_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVERY_DELIVERY_TASKS_H_
