#include "client/ring/write_result.h"

#include <algorithm>

namespace ranklog::internal {

static_assert(std::ranges::all_of(kLossReasons,
                                  [](const LossReason& reason) {
                                    return &reason == &kLossReasons[LossReasonIndex(reason.result)];
                                  }),
              "the reasons have another order");
static_assert(std::size(kLossReasons) + 1 == static_cast<size_t>(WriteResult::kInterrupting),
              "a result has no reason");
static_assert(offsetof(Stats, lost_damaged) - offsetof(Stats, lost_ring_full) ==
                  std::size(kLossReasons) * sizeof(uint64_t),
              "a counter of Stats has no reason");

const char* RefusalReason(WriteResult outcome) {
  if (outcome == WriteResult::kTaken || outcome == WriteResult::kTakenInPart) return "";
  if (outcome == WriteResult::kInterrupting) {
    return "a signal handler called Log() while its thread was in Log()";
  }
  return kLossReasons[LossReasonIndex(outcome)].text;
}

void CountLoss(WriteResult outcome, v1::SpoolHeader& spool) {
  if (outcome == WriteResult::kTaken || outcome == WriteResult::kTakenInPart) return;
  (spool.*kLossReasons[LossReasonIndex(outcome)].in_ring).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ranklog::internal
