// What Sender does at the exit of the process.

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "client/stream/sender.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

// At its shutdown, gRPC can wait forever for a thread that it could not start.
constexpr std::chrono::seconds kStopPatience{5};

// Finish() takes precedence, and an exception that ended the run takes precedence over exit(0).
void NoteExitIn(v1::SpoolHeader* header, int exit_code) {
  uint32_t finished = v1::kNotFinished;
  header->finished.compare_exchange_strong(finished, v1::kFinishedByDestructor);
  if (finished != v1::kFinishedByCall && exit_code != 0) header->exit_code.store(exit_code);
}

}  // namespace

void Sender::AddToFinish(const std::shared_ptr<StreamedRun>& run) {
  MutexLock lock(StateMutex());
  std::erase_if(to_finish_, [](const auto& other) { return other.expired(); });
  to_finish_.push_back(run);
}

void Sender::FinishRuns(int exit_code) {
  std::vector<std::shared_ptr<StreamedRun>> runs;
  {
    MutexLock lock(StateMutex());
    exiting_ = true;
    // The thread cannot wait for itself, for example if the program's on_message calls exit().
    if (thread_.get_id() == std::this_thread::get_id()) return;
    for (const auto& entry : to_finish_) {
      if (auto run = entry.lock()) runs.push_back(std::move(run));
    }
  }
  for (const auto& run : runs) run->FinishAtExit(exit_code);
}

void Sender::Stop(int exit_code) {
  std::thread thread;
  bool started;
  {
    MutexLock lock(StateMutex());
    exiting_ = true;
    started = started_;
    exit_code_ = exit_code;
    ended_ = true;
    thread = std::move(thread_);
  }
  wake_.NotifyAll();
  done_.NotifyAll();
  const Time deadline = Clock::now() + kStopPatience;
  while (thread.joinable()) {
    const uint32_t seen = done_.Count();
    if (stopped_) {
      thread.join();
    } else if (Clock::now() >= deadline) {
      return thread.detach();
    } else {
      done_.WaitUntil(seen, deadline);
    }
  }
  if (started) return;  // the thread has written it
  MutexLock lock(&tick_mutex_);
  NoteExit();
}

void Sender::NoteExit() {
  std::vector<v1::SpoolHeader*> headers;
  forked_rings_.AddHeaders(&headers);
  for (const auto& endpoint : endpoints_) endpoint->AddHeaders(&headers);
  MutexLock lock(StateMutex());
  for (const NewRing& added : new_rings_) headers.push_back(added.ring->spool->header());
  for (v1::SpoolHeader* const header : headers) NoteExitIn(header, exit_code_);
}

}  // namespace ranklog::internal
