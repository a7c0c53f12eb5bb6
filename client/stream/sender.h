// The library's background thread; uploads have another one (stager.h). On a timer, it sends the contents of the rings and frees
// what is durable.
//
// Between its ticks no call of ours is inside gRPC, so that a fork can shut gRPC down first (see
// fork.cc).

#ifndef CLIENT_STREAM_SENDER_H_
#define CLIENT_STREAM_SENDER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/base/event.h"
#include "client/base/mutex.h"
#include "client/base/process.h"
#include "client/stream/endpoint.h"
#include "client/stream/forked_rings.h"

namespace ranklog::internal {

class Sender {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The sender of this process. Never destroyed. A forked child has its own.
  static Sender* Get() ABSL_LOCKS_EXCLUDED(StateMutex());

  // Sends a ring until the daemon has all of it. The first call starts the thread.
  void Add(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring)
      ABSL_LOCKS_EXCLUDED(StateMutex());

  // Calls the run's PrintMessages() after each tick, until the run has printed its last message.
  void AddPrintingRun(std::shared_ptr<StreamedRun> run) ABSL_LOCKS_EXCLUDED(StateMutex());

  // Calls `task` once, on the thread, unless the process ends before that. Nothing is sent until it
  // returns.
  void RunSoon(std::function<void()> task) ABSL_LOCKS_EXCLUDED(StateMutex());

  // Lets exit() wait for the end of the run, as StreamedRun::FinishAtExit() does.
  void AddToFinish(const std::shared_ptr<StreamedRun>& run) ABSL_LOCKS_EXCLUDED(StateMutex());
  // Called at the exit of the process, before Stop().
  void FinishRuns(int exit_code) ABSL_LOCKS_EXCLUDED(StateMutex());

  // Sends at once, and continues until done() or the deadline. Returns done(). `done` must be
  // callable from any thread.
  bool SendUntil(Time deadline, const std::function<bool()>& done)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  // The same, but at the sender's normal pace.
  bool Await(Time deadline, const std::function<bool()>& done);
  // Sends at once, and does not wait for the result.
  void Nudge() ABSL_LOCKS_EXCLUDED(StateMutex());

  // Ends the thread and leaves gRPC, at the exit of the process. The rings stay for the daemon.
  // Does not wait for a gRPC that hangs. Writes the exit code to the rings: a daemon that never saw
  // the process knows nothing else.
  void Stop(int exit_code) ABSL_LOCKS_EXCLUDED(StateMutex());

  // Returns why this process sends nothing: its thread could not be started, or it ended because an
  // allocation failed. Null if it sends. The rings stay for the daemon.
  static const char* Trouble();

 private:
  struct NewRing {
    std::shared_ptr<StreamedRun> run;
    std::shared_ptr<Ring> ring;
    int socket;  // see ForkedRings::Pass(); -1: none
  };
  using NewRings = std::vector<NewRing>;

  Sender();

  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  // Starts the thread if needed, and lets it run at once.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  void Run() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void Loop() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void Abandon() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void NoteExit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tick_mutex_) ABSL_LOCKS_EXCLUDED(StateMutex());
  bool WaitForTick(Time next, bool* urgent) ABSL_LOCKS_EXCLUDED(StateMutex());
  void Calibrate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tick_mutex_);
  Time Tick(bool urgent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tick_mutex_);
  void RunTasks() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void PrintMessages(bool last) ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  NewRings TakeNewRings() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void AddToEndpoints(NewRings rings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tick_mutex_);
  bool HasEnded() const { return ended_.load(std::memory_order_relaxed); }

  Mutex tick_mutex_;  // lock before StateMutex(); held while the thread uses the next two
  std::vector<std::unique_ptr<Endpoint>> endpoints_ ABSL_GUARDED_BY(tick_mutex_);
  ForkedRings forked_rings_ ABSL_GUARDED_BY(tick_mutex_);  // in a forked child
  Time next_flush_ ABSL_GUARDED_BY(tick_mutex_);
  Time next_calibration_ ABSL_GUARDED_BY(tick_mutex_);

  std::vector<std::shared_ptr<StreamedRun>> printing_runs_;  // only for the thread

  std::vector<std::shared_ptr<StreamedRun>> new_printing_runs_ ABSL_GUARDED_BY(StateMutex());
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(StateMutex());
  std::vector<std::weak_ptr<StreamedRun>> to_finish_ ABSL_GUARDED_BY(StateMutex());
  NewRings new_rings_ ABSL_GUARDED_BY(StateMutex());
  std::thread thread_ ABSL_GUARDED_BY(StateMutex());
  bool started_ ABSL_GUARDED_BY(StateMutex()) = false;
  int exit_code_ ABSL_GUARDED_BY(StateMutex()) = 0;  // of the process, for Stop()
  bool nudged_ ABSL_GUARDED_BY(StateMutex()) = false;
  int waiters_ ABSL_GUARDED_BY(StateMutex()) = 0;
  Event wake_;                         // wakes the thread
  Event done_;                         // wakes threads in Await()
  std::atomic<bool> stopped_ = false;  // the thread has finished its work
  std::atomic<bool> ended_ = false;
  std::atomic<bool> exiting_ = false;  // the process is in exit()
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_SENDER_H_
