#include "client/ring/write_result.h"

#include <atomic>
#include <cstdint>

namespace ranklog::internal {

const char* WhyRefused(WriteResult outcome) {
  switch (outcome) {
    case WriteResult::kRingFull:
      return "the spool is full";
    case WriteResult::kStepBehind:
      return "a step is below the last one of its thread";
    case WriteResult::kTooLarge:
      return "a row is larger than half of the spool; raise spool_bytes, or free space for the "
             "spool";
    case WriteResult::kAfterFinish:
      return "the run has finished";
    case WriteResult::kInterrupting:
      return "a signal handler called Log() while its thread was in Log()";
    case WriteResult::kTaken:
    case WriteResult::kInvalid:
      break;
  }
  return "";
}

void CountLoss(WriteResult outcome, v1::SpoolHeader& spool) {
  const auto count = [](std::atomic<uint64_t>& counter) {
    counter.fetch_add(1, std::memory_order_relaxed);
  };
  switch (outcome) {
    case WriteResult::kTaken:
      return;
    case WriteResult::kRingFull:
      return count(spool.lost_ring_full);
    case WriteResult::kInvalid:
    case WriteResult::kInterrupting:
      return count(spool.lost_invalid);
    case WriteResult::kStepBehind:
      return count(spool.lost_step_behind);
    case WriteResult::kTooLarge:
      return count(spool.lost_too_large);
    case WriteResult::kAfterFinish:
      return count(spool.lost_after_finish);
  }
}

}  // namespace ranklog::internal
