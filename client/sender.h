// The library's one background thread: on a timer, it sends what the rings hold, and frees what is
// durable.
//
// Between its ticks nothing of ours is inside gRPC, so that a fork can take gRPC down first (see
// process.cc).

#ifndef CLIENT_SENDER_H_
#define CLIENT_SENDER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/endpoint.h"
#include "client/event.h"
#include "client/mutex.h"
#include "client/process.h"

namespace ranklog::internal {

class Sender {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // This process's. Never destroyed; a forked child has another.
  static Sender* Get() ABSL_LOCKS_EXCLUDED(StateMutex());

  // Takes care of a ring until the daemon has all of it. Starts the thread with the first.
  void Add(std::shared_ptr<RunState> run, std::shared_ptr<Ring> ring)
      ABSL_LOCKS_EXCLUDED(StateMutex());

  // Lets the run tell its user what it has to tell, after each tick, until it has said its last.
  void AddSpeaker(std::shared_ptr<RunState> run) ABSL_LOCKS_EXCLUDED(StateMutex());

  // Lets exit() wait for the end of the run, as RunState::FinishAtExit() does.
  void AddToFinish(const std::shared_ptr<RunState>& run) ABSL_LOCKS_EXCLUDED(StateMutex());
  // For the exit of the process, before Stop().
  void FinishRuns(int exit_code) ABSL_LOCKS_EXCLUDED(StateMutex());

  // Sends at once, and goes on until done() or the deadline; whether done(), which any thread may
  // ask.
  bool SendUntil(Time deadline, const std::function<bool()>& done)
      ABSL_LOCKS_EXCLUDED(StateMutex());
  // The same without a hurry: as the sender goes on by itself.
  bool Await(Time deadline, const std::function<bool()>& done);
  // Sends at once, without waiting for it.
  void Nudge() ABSL_LOCKS_EXCLUDED(StateMutex());

  // Ends the thread, and leaves gRPC; the rings stay for the daemon. For the exit of the process,
  // which does not wait for a gRPC that hangs.
  // The rings say that it ended so: a daemon that never saw the process knows nothing else.
  void Stop(int exit_code) ABSL_LOCKS_EXCLUDED(StateMutex());

  // Why this process sends nothing: its thread could not be started, or ended as an allocation of
  // it failed. Null: it sends. The rings stay for the daemon.
  static const char* Trouble();

  // A fork, in this order in the parent. After HoldForFork() gRPC is down, unless memory is short,
  // and the thread stands still.
  void HoldForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void ReleaseAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  using NewRings = std::vector<std::pair<std::shared_ptr<RunState>, std::shared_ptr<Ring>>>;

  Sender();

  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  void Run() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void Loop() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void Abandon() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void NoteExit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tick_mutex_) ABSL_LOCKS_EXCLUDED(StateMutex());
  bool WaitForTick(Time next, bool* urgent) ABSL_LOCKS_EXCLUDED(StateMutex());
  void Calibrate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tick_mutex_);
  Time Tick(bool urgent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tick_mutex_);
  void Speak(bool last) ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  NewRings TakeNewRings() ABSL_LOCKS_EXCLUDED(StateMutex(), tick_mutex_);
  void AddToEndpoints(NewRings rings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tick_mutex_);
  bool HasEnded() const { return ended_.load(std::memory_order_relaxed); }

  Mutex tick_mutex_;  // before StateMutex(); held while the thread, or a fork, is at the endpoints
  std::vector<std::unique_ptr<Endpoint>> endpoints_ ABSL_GUARDED_BY(tick_mutex_);
  Time next_flush_ ABSL_GUARDED_BY(tick_mutex_);
  Time next_calibration_ ABSL_GUARDED_BY(tick_mutex_);

  std::vector<std::shared_ptr<RunState>> speakers_;  // of the thread

  std::vector<std::shared_ptr<RunState>> new_speakers_ ABSL_GUARDED_BY(StateMutex());
  std::vector<std::weak_ptr<RunState>> to_finish_ ABSL_GUARDED_BY(StateMutex());
  NewRings new_rings_ ABSL_GUARDED_BY(StateMutex());
  std::thread thread_ ABSL_GUARDED_BY(StateMutex());
  bool started_ ABSL_GUARDED_BY(StateMutex()) = false;
  int exit_code_ ABSL_GUARDED_BY(StateMutex()) = 0;  // of the process, for Stop()
  bool nudged_ ABSL_GUARDED_BY(StateMutex()) = false;
  int waiters_ ABSL_GUARDED_BY(StateMutex()) = 0;
  Event wake_;                         // the thread
  Event done_;                         // who waits in Await()
  std::atomic<int> forks_ = 0;         // threads that wait to fork, or do
  std::atomic<bool> stopped_ = false;  // the thread has done all it will
  std::atomic<bool> ended_ = false;
  std::atomic<bool> exiting_ = false;  // the process is in exit()
};

}  // namespace ranklog::internal

#endif  // CLIENT_SENDER_H_
