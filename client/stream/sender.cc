#include "client/stream/sender.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "client/base/uncancelled.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The longest that an exit waits for a tick, approximately.
constexpr milliseconds kTickBudget{50};
// How often an urgent wait retries while no daemon answers.
constexpr milliseconds kUrgentPause{20};
// How often to look for the answer to a Hello: the default flush interval. A daemon that has not
// answered cannot hold the spool of a rank that dies.
constexpr milliseconds kAttachPause{100};
// The longest interval between two calls of a run's PrintMessages().
constexpr std::chrono::seconds kPrintMessagesInterval{1};
constexpr std::chrono::hours kNever{24};
// If the clock is set, rows of the last second before that get times of the new clock.
constexpr std::chrono::seconds kCalibrationInterval{1};

std::atomic<const char*> trouble = nullptr;  // why nothing is sent in this process
Sender* process_sender = nullptr;  // guarded by StateMutex(); a forked child drops its parent's

void StopAtExit(int status, void* /*unused*/) {
  const Uncancelled uncancelled;
  try {
    Sender::Get()->FinishRuns(status & 0xff);
  } catch (...) {  // no memory: the rings have the state of the runs
  }
  Sender::Get()->Stop(status & 0xff);
}

}  // namespace

Sender::Sender() { trouble = nullptr; }  // it belonged to the parent

Sender* Sender::Get() {
  static uint64_t generation = 0;  // guarded like process_sender
  MutexLock lock(StateMutex());
  if (process_sender == nullptr || generation != Generation()) {
    // The parent's sender is kept but never called: its thread and its calls do not exist here.
    static auto* const senders = new std::vector<Sender*>;
    process_sender = new Sender;
    senders->push_back(process_sender);
    generation = Generation();
  }
  return process_sender;
}

void Sender::Wake() {
  nudged_ = true;
  if (!started_) StartThread();
  wake_.NotifyAll();
}

void Sender::Add(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring) {
  // At once: a forked child may end before its thread does anything.
  const absl::StatusOr<int> socket = Generation() > 0 ? ForkedRings::Pass(*run, *ring) : -1;
  MutexLock lock(StateMutex());
  if (HasEnded()) return;
  new_rings_.push_back({std::move(run), std::move(ring), socket.value_or(-1)});
  Wake();
}

void Sender::AddPrintingRun(std::shared_ptr<StreamedRun> run) {
  MutexLock lock(StateMutex());
  if (HasEnded()) return;
  new_printing_runs_.push_back(std::move(run));
  Wake();
}

void Sender::RunSoon(std::function<void()> task) {
  MutexLock lock(StateMutex());
  if (HasEnded()) return;
  tasks_.push_back(std::move(task));
  Wake();
}

void Sender::RunTasks() {
  std::vector<std::function<void()>> tasks;
  {
    MutexLock lock(StateMutex());
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

// Called without a lock, because a message may go to a function of the program.
void Sender::PrintMessages(bool last) {
  {
    MutexLock lock(StateMutex());
    for (auto& run : new_printing_runs_) printing_runs_.push_back(std::move(run));
    new_printing_runs_.clear();
  }
  const Time now = Clock::now();
  std::erase_if(printing_runs_, [&](const auto& run) {
    try {
      if (exiting_.load()) run->StopCallbacks();
      return run->PrintMessages(now, last);
    } catch (...) {  // no memory: the rows matter more than the line
      return false;
    }
  });
}

void Sender::StartThread() {
  // The trainer's signals must go to the trainer's threads. gRPC's threads inherit this mask.
  const SignalsBlocked signals_blocked;
  try {
    thread_ = std::thread([this] { Run(); });
    started_ = true;
    trouble = nullptr;
  } catch (...) {
    // No thread or no memory is available. Each wait for rows and each new ring tries again.
    trouble = "cannot start a thread to send the rows; the daemon takes them when the process ends";
  }
  static const int registered = on_exit(StopAtExit, nullptr);
  static_cast<void>(registered);
}

bool Sender::SendUntil(Time deadline, const std::function<bool()>& done) {
  {
    MutexLock lock(StateMutex());
    if (!started_ && !new_rings_.empty()) StartThread();
    ++waiters_;
    nudged_ = true;
  }
  wake_.NotifyAll();
  const bool is_done = Await(deadline, done);
  MutexLock lock(StateMutex());
  --waiters_;
  return is_done;
}

// Called without a lock: a signal handler that calls exit() may come here, and waits for the same
// event.
bool Sender::Await(Time deadline, const std::function<bool()>& done) {
  while (true) {
    const uint32_t seen = done_.Count();
    if (done()) return true;
    const Time now = Clock::now();
    if (HasEnded() || now >= deadline) return false;
    done_.WaitUntil(seen, std::min(deadline, now + milliseconds(100)));
  }
}

void Sender::Nudge() {
  {
    MutexLock lock(StateMutex());
    nudged_ = true;
  }
  wake_.NotifyAll();
}

bool Sender::WaitForTick(Time next, bool* urgent) {
  while (true) {
    const uint32_t seen = wake_.Count();
    const Time now = Clock::now();
    {
      MutexLock lock(StateMutex());
      if (HasEnded() || nudged_ || now >= next) {
        nudged_ = false;
        *urgent = waiters_ > 0;
        return !HasEnded();
      }
    }
    wake_.WaitUntil(seen, next);
  }
}

void Sender::Run() {
  pthread_setname_np(pthread_self(), "ranklog");
  try {
    Loop();
  } catch (...) {
    Abandon();
  }
  stopped_ = true;
  done_.NotifyAll();
}

// For lack of memory. gRPC was interrupted in the middle of an operation. It must not be called any
// more, not even to shut it down.
void Sender::Abandon() {
  {
    MutexLock lock(&tick_mutex_);
    for (auto& endpoint : endpoints_) static_cast<void>(endpoint.release());
    endpoints_.clear();
  }
  trouble = "out of memory while sending rows; the daemon takes the rest when the process ends";
  ended_ = true;
  done_.NotifyAll();
}

const char* Sender::Trouble() { return trouble.load(std::memory_order_relaxed); }

void Sender::Loop() {
  // For RunState::Close(). Registered here, because with several threads the kernel takes
  // milliseconds.
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  Time next = Clock::now();
  bool urgent = false;
  while (WaitForTick(next, &urgent)) {
    NewRings rings = TakeNewRings();
    {
      MutexLock lock(&tick_mutex_);
      AddToEndpoints(std::move(rings));
      next = Tick(urgent);
    }
    RunTasks();
    PrintMessages(/*last=*/false);
    if (!printing_runs_.empty()) next = std::min(next, Clock::now() + kPrintMessagesInterval);
    done_.NotifyAll();
  }
  PrintMessages(/*last=*/true);
  MutexLock lock(&tick_mutex_);
  NoteExit();
  // An endpoint that cannot disconnect is kept until the process ends.
  for (auto& endpoint : endpoints_) {
    if (!endpoint->Disconnect()) static_cast<void>(endpoint.release());
  }
  const bool all = std::none_of(endpoints_.begin(), endpoints_.end(),
                                [](const auto& endpoint) { return endpoint == nullptr; });
  endpoints_.clear();
  if (all) Connection::EndGrpc();
}

// Touches the rings' pages without a lock, because that takes milliseconds.
Sender::NewRings Sender::TakeNewRings() {
  NewRings rings;
  {
    MutexLock lock(StateMutex());
    rings.swap(new_rings_);
  }
  for (const NewRing& added : rings) added.ring->spool->TouchRest();
  return rings;
}

// A forked child must not use gRPC: it inherited locks that threads of its parent may have held.
void Sender::AddToEndpoints(NewRings rings) {
  for (auto& [run, ring, socket] : rings) {
    if (Generation() > 0) {
      forked_rings_.Add(std::move(run), std::move(ring), socket);
      continue;
    }
    const std::string& address = run->settings().address;
    auto found = std::find_if(endpoints_.begin(), endpoints_.end(),
                              [&](const auto& endpoint) { return endpoint->address() == address; });
    if (found == endpoints_.end()) {
      endpoints_.push_back(std::make_unique<Endpoint>(address));
      found = endpoints_.end() - 1;
    }
    (*found)->Add(std::move(run), std::move(ring));
  }
}

void Sender::Calibrate() {
  const Time now = Clock::now();
  if (now < next_calibration_) return;
  next_calibration_ = now + kCalibrationInterval;
  std::vector<v1::SpoolHeader*> headers;
  forked_rings_.AddHeaders(&headers);
  for (const auto& endpoint : endpoints_) endpoint->AddHeaders(&headers);
  CalibrateClocks(headers);
}

Sender::Time Sender::Tick(bool urgent) {
  Calibrate();
  const Time deadline = Clock::now() + kTickBudget;
  const auto hurry = [this] { return HasEnded(); };
  for (const auto& endpoint : endpoints_) endpoint->Tick(deadline, urgent, hurry);
  std::erase_if(endpoints_,
                [](const auto& endpoint) { return endpoint->empty() && endpoint->Disconnect(); });

  const Time now = Clock::now();
  Time next = std::min(now + kNever, forked_rings_.Tick(now, urgent));
  for (const auto& endpoint : endpoints_) {
    const milliseconds interval = endpoint->flush_interval();
    // All ranks of the node flush at the same moments of its clock. So the daemon wakes once for
    // all of them, and commits once.
    const Time flush(now.time_since_epoch() / interval * interval + interval);
    next_flush_ = next_flush_ <= now ? flush : std::min(next_flush_, flush);
    next = std::min({next, next_flush_, endpoint->next_attempt()});
    if (endpoint->attaches()) next = std::min(next, now + kAttachPause);
    if (endpoint->pressed()) next = now;
  }
  if (urgent && !endpoints_.empty()) {
    const bool answers_come = std::any_of(endpoints_.begin(), endpoints_.end(),
                                          [](const auto& endpoint) { return endpoint->awaits(); });
    next = std::min(next, answers_come ? now : now + kUrgentPause);
  }
  return std::max(next, now);
}

}  // namespace ranklog::internal
