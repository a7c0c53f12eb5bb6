#include "client/stager.h"

#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

namespace ranklog::internal {

Upload::State Upload::Wait(std::chrono::steady_clock::time_point deadline) const {
  while (true) {
    const uint32_t seen = changed_.Count();
    if (state() != kStaging || std::chrono::steady_clock::now() >= deadline) return state();
    changed_.WaitUntil(seen, deadline);
  }
}

Stager* Stager::Get() {
  static Stager* stager = nullptr;
  static uint64_t generation = 0;
  MutexLock lock(StateMutex());
  if (stager == nullptr || generation != Generation()) {
    stager = new Stager;  // the thread of a parent's exists only there
    generation = Generation();
  }
  return stager;
}

bool Stager::Add(std::function<void()> job) {
  MutexLock lock(StateMutex());
  if (!started_) {
    // Signals are for the program's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { Run(); }).detach();
      started_ = true;
    } catch (const std::system_error&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!started_) return false;
  }
  jobs_.push_back(std::move(job));
  added_.NotifyAll();
  return true;
}

void Stager::Run() {
  pthread_setname_np(pthread_self(), "ranklog-files");
  while (true) {
    const uint32_t seen = added_.Count();
    std::function<void()> job;
    {
      MutexLock lock(StateMutex());
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
    }
    if (job) {
      job();
    } else {
      added_.WaitUntil(seen, std::chrono::steady_clock::time_point::max());
    }
  }
}

}  // namespace ranklog::internal
