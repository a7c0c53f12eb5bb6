// RunState::LogRow(): the way of a row from Log() to the ring of the thread.

#ifndef CLIENT_RUN_LOG_ROW_H_
#define CLIENT_RUN_LOG_ROW_H_

#include <atomic>
#include <cstdint>
#include <new>

#include "client/ring/ring_writer.h"
#include "client/ring/steps.h"
#include "client/ring/write_result.h"
#include "client/ring/writer_call.h"
#include "client/run/run_state.h"
#include "client/run/thread_rings.h"

namespace ranklog::internal {

template <typename WriteFn>
bool RunState::LogRow(const int64_t* step, WriteFn&& write) noexcept {
  try {
    RingWriter* const writer = thread_cache.token == token_ ? thread_cache.writer : FindWriter();
    if (writer == nullptr) return RefusedWithoutRing();
    if (WriterCall::IsInterrupted(*writer)) [[unlikely]] {
      return Refused(writer, WriteResult::kInterrupting);
    }
    const WriterCall call(writer);
    if (attention_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      if (closed_.load(std::memory_order_relaxed)) {
        return Refused(writer, WriteResult::kAfterFinish);
      }
      WriteFacts(writer);
    }
    if (step != nullptr && *step > kMaxStep) {
      return Refused(writer, WriteResult::kInvalid, "a step is above 2^53");
    }
    WriteResult outcome;
    try {
      outcome = write(*writer, StepOf(*writer, step));
    } catch (const std::bad_alloc&) {
      outcome = WriteResult::kRingFull;
    }
    if (outcome == WriteResult::kTaken) [[likely]] {
      return true;
    }
    return NotTakenWhole(writer, outcome, step, write);
  } catch (...) {  // no memory even for the slow path
    // Not a function call: that would make the whole function a nanosecond slower.
    lost_without_ring_[LossReasonIndex(WriteResult::kRingFull)].fetch_add(
        1, std::memory_order_relaxed);
    return false;
  }
}

template <typename WriteFn>
bool RunState::NotTakenWhole(RingWriter* writer, WriteResult outcome, const int64_t* step,
                             WriteFn& write) {
  if (outcome == WriteResult::kTooLarge && TakeLargerRing(*writer)) return LogRow(step, write);
  if (outcome == WriteResult::kStepBehind && TakeRingFrom(*step, *writer)) {
    return LogRow(step, write);
  }
  if (outcome == WriteResult::kTooLarge) {
    const RingWriter::LeavingOutLarge leaving_out(writer);
    outcome = write(*writer, StepOf(*writer, step));
  }
  if (outcome == WriteResult::kTakenInPart) return TakenInPart(*writer);
  return Refused(writer, outcome, writer->reason());
}

}  // namespace ranklog::internal

#endif  // CLIENT_RUN_LOG_ROW_H_
