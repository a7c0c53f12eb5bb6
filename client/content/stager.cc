#include "client/content/stager.h"

#include <signal.h>

#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenChecks{5};

}  // namespace

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

bool Stager::Start() {
  if (started_) return true;
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
  return started_;
}

bool Stager::Add(std::function<void()> job) {
  MutexLock lock(StateMutex());
  if (!Start()) return false;
  jobs_.push_back(std::move(job));
  added_.NotifyAll();
  return true;
}

bool Stager::Watch(std::function<bool()> check) {
  MutexLock lock(StateMutex());
  if (!Start()) return false;
  checks_.push_back(std::move(check));
  added_.NotifyAll();
  return true;
}

void Stager::Run() {
  pthread_setname_np(pthread_self(), "ranklog-files");
  auto next_checks = Clock::now() + kBetweenChecks;
  while (true) {
    const uint32_t seen = added_.Count();
    std::function<void()> job;
    bool has_checks = false;
    {
      MutexLock lock(StateMutex());
      has_checks = !checks_.empty();
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
    }
    if (job) {
      job();
    } else if (has_checks && Clock::now() >= next_checks) {
      RunChecks();
      next_checks = Clock::now() + kBetweenChecks;
    } else {
      added_.WaitUntil(seen, has_checks ? next_checks : Clock::time_point::max());
    }
  }
}

// Only this thread removes checks, and others append, so an iterator stays valid.
void Stager::RunChecks() {
  std::list<std::function<bool()>>::iterator check;
  {
    MutexLock lock(StateMutex());
    check = checks_.begin();
  }
  for (bool any = true; any;) {
    const bool goes_on = (*check)();
    std::function<bool()> ended;  // its destructor may take the lock
    MutexLock lock(StateMutex());
    if (!goes_on) ended = std::move(*check);
    check = goes_on ? std::next(check) : checks_.erase(check);
    any = check != checks_.end();
  }
}

}  // namespace ranklog::internal
