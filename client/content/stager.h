// The thread that copies files for uploads. It starts with the first upload.

#ifndef CLIENT_CONTENT_STAGER_H_
#define CLIENT_CONTENT_STAGER_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <string>

#include "absl/base/thread_annotations.h"
#include "client/base/event.h"
#include "client/base/process.h"

namespace ranklog::internal {

// An upload, as the program's handle sees it. Thread-safe.
class Upload {
 public:
  enum State { kStaging, kStaged, kRefused };
  State state() const { return state_.load(std::memory_order_acquire); }
  // Why it was refused; empty before that.
  std::string error() const { return state() == kRefused ? error_ : std::string(); }
  // Returns when it is not kStaging any more, at most at the deadline.
  State Wait(std::chrono::steady_clock::time_point deadline) const;
  // Once, by one thread.
  void Staged() { Set(kStaged); }
  void Refuse(std::string why) {
    error_ = std::move(why);
    Set(kRefused);
  }

 private:
  void Set(State state) {
    state_.store(state, std::memory_order_release);
    changed_.NotifyAll();
  }
  std::string error_;
  std::atomic<State> state_ = kStaging;
  Event changed_;
};

class Stager {
 public:
  // That of this process. Never destroyed. A forked child has its own.
  static Stager* Get() ABSL_LOCKS_EXCLUDED(StateMutex());
  // Calls `job` on the thread, after the earlier ones. False: the thread cannot be started.
  bool Add(std::function<void()> job) ABSL_LOCKS_EXCLUDED(StateMutex());
  // From now on, calls `check` on the thread, every few seconds, until it returns false. False: as
  // above.
  bool Watch(std::function<bool()> check) ABSL_LOCKS_EXCLUDED(StateMutex());

 private:
  bool Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex());
  void Run() ABSL_LOCKS_EXCLUDED(StateMutex());
  void RunChecks() ABSL_LOCKS_EXCLUDED(StateMutex());

  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(StateMutex());
  std::list<std::function<bool()>> checks_ ABSL_GUARDED_BY(StateMutex());
  bool started_ ABSL_GUARDED_BY(StateMutex()) = false;
  Event added_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_CONTENT_STAGER_H_
