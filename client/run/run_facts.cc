// The metadata of a run: when its facts are gathered, and how they get into a ring.
//
// The sender's thread gathers them, because that reads files. A ring belongs to the thread that logs,
// so that thread writes them, at its next call. Finish() makes up for both.

#include <sched.h>

#include <chrono>

#include "client/base/mutex.h"
#include "client/run/run_state.h"
#include "client/stream/sender.h"

namespace ranklog::internal {
void RunState::BeginFacts() {
  if (!settings_.metadata || IsGuest()) return;
  surroundings_ = ReadSurroundings();
  facts_state_ = Facts::kNone;
  Sender::Get()->RunSoon([run = weak_from_this()] {
    if (const auto state = std::static_pointer_cast<RunState>(run.lock())) state->GatherFacts();
  });
}

void RunState::GatherFacts() noexcept {
  // A signal handler may call exit(), which waits for the facts and for locks that this takes.
  const SignalsBlocked signals_blocked;
  Facts none = Facts::kNone;
  if (!facts_state_.compare_exchange_strong(none, Facts::kGathering)) return;
  try {
    v1::Item item;
    *item.mutable_metadata() =
        MakeMetadata(settings_, surroundings_, hello_.settings().start_time_us());
    item.set_called_us(static_cast<int64_t>(MicrosSinceBoot()));
    facts_ = item.SerializeAsString();
    attention_.fetch_or(kFactsAreDue);
  } catch (...) {  // no memory: the run has no metadata
  }
  facts_state_ = Facts::kDone;
}

// A signal handler may come here, so this frees nothing.
void RunState::WriteFacts(RingWriter* writer) noexcept {
  if ((attention_.fetch_and(~kFactsAreDue) & kFactsAreDue) == 0) return;
  try {
    // Facts that are too large are left out.
    if (writer->WriteItem(facts_) != WriteResult::kRingFull) return;
  } catch (...) {
  }
  attention_.fetch_or(kFactsAreDue);
}

void RunState::AwaitFacts(std::chrono::steady_clock::time_point deadline) noexcept {
  GatherFacts();
  while (facts_state_ == Facts::kGathering && std::chrono::steady_clock::now() < deadline) {
    sched_yield();  // it takes about a millisecond
  }
}

}  // namespace ranklog::internal
