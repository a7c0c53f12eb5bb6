// The ends of a run: Flush() waits until its rows are durable, Finish() closes its rings as well.

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "client/run/run_state.h"
#include "client/stream/sender.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

// The minimum time that Finish() gives a Log() of another thread: a descheduled thread needs a
// while.
constexpr std::chrono::milliseconds kCallPatience{100};
// Longer than any training. milliseconds::max() would overflow in nanoseconds.
constexpr std::chrono::hours kLongestFlush{365 * 24};
constexpr std::chrono::milliseconds kLastLinePatience{200};  // after Finish() is done

}  // namespace

FlushResult RunState::Flush(std::chrono::milliseconds timeout, const Stops& stops) {
  timeout = std::clamp<std::chrono::milliseconds>(timeout, {}, kLongestFlush);
  std::vector<std::pair<std::shared_ptr<Ring>, uint64_t>> ends;
  for (auto& ring : Rings()) ends.emplace_back(ring, ring->head());
  const auto durable = [&ends] {
    return std::all_of(ends.begin(), ends.end(), [](const auto& entry) {
      return entry.first->durable_end.load(std::memory_order_acquire) >= entry.second;
    });
  };
  const auto over = [&ends, &durable, &stops] {
    return durable() || (stops && stops()) ||
           std::any_of(ends.begin(), ends.end(),
                       [](const auto& entry) { return entry.first->given_up.load(); });
  };
  Sender::Get()->SendUntil(Clock::now() + timeout, over);
  return durable() ? FlushResult::kDurable : FlushResult::kSpooled;
}

bool RunState::HasRunsRows() const {
  switch (settings_.log_strategy) {
    case LogStrategy::kMain:
      return *settings_.rank == 0;
    case LogStrategy::kNode:
      return *settings_.local_rank == 0;
    case LogStrategy::kAll:
      break;
  }
  return true;
}

// After this, no thread writes to a ring of the run. A thread in a WriterCall stores `busy` and
// then loads `attention_` or `closed_`; this thread stores both and then loads `busy`. That is safe
// only if each side's store is visible before its load. Here membarrier() puts a barrier into every
// running thread, so that a WriterCall needs none.
Clock::time_point RunState::Close(int exit_code, bool by_destructor) {
  const Clock::time_point now = Clock::now();
  {
    MutexLock lock(StateMutex());
    if (closed_.load(std::memory_order_relaxed)) {
      return delivery_.load() == Delivery::kAwaited ? closed_at_ : now;
    }
    exit_code_ = exit_code;
    by_destructor_ = by_destructor;
    closed_at_ = now;
    closed_.store(true);
    attention_.fetch_or(kIsClosed);
  }
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0 &&
      syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // stores are visible by then
  }
  return now;
}

// False if a thread is still in a call that writes to the ring, for longer than any call takes.
// Also false if this thread is in such a call, and its signal handler called this. The daemon then
// closes the stream after the process has ended.
bool RunState::CloseRing(Ring* ring, Clock::time_point deadline) {
  if (ring->closing.load(std::memory_order_relaxed)) return true;
  v1::SpoolHeader* const header = ring->spool->header();
  v1::FinishedBy finished = v1::kFinishedByCall;
  {
    MutexLock lock(StateMutex());
    // The end of a forked child, or of an attached process, says nothing about the run.
    if (!is_attached_) header->exit_code.store(exit_code_, std::memory_order_relaxed);
    if (by_destructor_ && !IsGuest()) finished = v1::kFinishedByDestructor;
  }
  header->finished.store(finished, std::memory_order_release);
  while (ring->writer.busy.load(std::memory_order_acquire)) {
    if (ring->cut_off.load(std::memory_order_acquire)) break;
    if (thread_cache.writer == &ring->writer || Clock::now() >= deadline) return false;
    sched_yield();
  }
  if (!ring->cut_off.load(std::memory_order_acquire)) WriteFacts(&ring->writer);
  ring->closing.store(true, std::memory_order_release);
  return true;
}

FlushResult RunState::Finish(int exit_code, std::chrono::milliseconds timeout, bool by_destructor,
                             const Stops& stops) {
  if (!usable_) return FlushResult::kDurable;
  const Clock::time_point begin = Clock::now();
  bool is_stopped = false;
  const auto stopped = [&stops, &is_stopped] {
    if (!is_stopped && stops) is_stopped = stops();
    return is_stopped;
  };
  const std::vector<std::shared_ptr<Ring>> rings_before = Rings();  // notices a fork
  const bool awaits = timeout.count() > 0 && settings_.delivery_timeout.count() > 0 && !IsGuest() &&
                      !rings_before.empty() && HasRunsRows();
  if (awaits && !closed_.load()) delivery_ = Delivery::kAwaited;  // the sender keeps a stream open
  AwaitFacts(Clock::now() + std::max(timeout, kCallPatience));
  if (!closed_.load()) {
    StopConsole();
    EndSaves();
    AwaitStaging(std::max(timeout, settings_.finish_timeout), stopped);
  }
  const Clock::time_point start = Close(exit_code, by_destructor);
  const std::vector<std::shared_ptr<Ring>> rings = Rings();
  bool all_closed = true;
  for (const auto& ring : rings) {
    if (!CloseRing(ring.get(), start + std::max(timeout, kCallPatience))) all_closed = false;
  }
  const auto durable = [&rings] {
    return std::all_of(rings.begin(), rings.end(), [](const auto& ring) {
      return ring->finish_durable.load(std::memory_order_acquire);
    });
  };
  const auto last_line = [this] { return !prints_last_line_.load(std::memory_order_acquire); };
  const auto say_it = [&] {
    if (!last_line()) Sender::Get()->SendUntil(Clock::now() + kLastLinePatience, last_line);
  };
  const auto delivered = [&] {
    return !awaits || !has_tracker_.load() || delivery_.load() == Delivery::kDone;
  };
  if (durable() && delivery_.load() != Delivery::kAwaited) {
    say_it();
    return delivered() ? FlushResult::kDurable : FlushResult::kUndelivered;
  }
  if (timeout.count() == 0 || !all_closed || is_stopped) {
    if (is_stopped) finish_timed_out_ = true;
    StopAwaitingDelivery();
    Sender::Get()->Nudge();
    return FlushResult::kSpooled;
  }
  const auto over = [&rings, &durable] {
    return durable() || std::any_of(rings.begin(), rings.end(),
                                    [](const auto& ring) { return ring->given_up.load(); });
  };
  // Without a daemon neither copies nor rows advance, and the wait for the copies counts.
  Clock::time_point from = start;
  if (std::none_of(rings.begin(), rings.end(),
                   [](const auto& ring) { return ring->attached.load(); })) {
    const Clock::time_point advanced(staging_advanced_.load(std::memory_order_relaxed));
    from = std::min(start, std::max(begin, advanced));
  }
  Sender::Get()->SendUntil(from + timeout, [&] { return over() || stopped(); });
  if (awaits) {
    Sender::Get()->Await(start + settings_.delivery_timeout, [&] {
      return (over() && !durable()) || (durable() && !AwaitsDelivery()) || stopped();
    });
    if (delivery_.load() == Delivery::kAwaited) StopAwaitingDelivery();
    Sender::Get()->Nudge();
  }
  const bool all = durable();
  if (!all || is_stopped) finish_timed_out_ = true;
  if (!is_stopped) say_it();
  if (!all) return FlushResult::kSpooled;
  return delivered() ? FlushResult::kDurable : FlushResult::kUndelivered;
}

void RunState::FinishAtExit(int exit_code) {
  StopCallbacks();
  // A finished run has already waited, unless another thread is still in Finish(), or this thread
  // was in it when a signal handler called exit().
  if (closed_.load() && delivery_.load() != Delivery::kAwaited) return;
  Finish(exit_code, settings_.finish_timeout);
}

}  // namespace ranklog::internal
