#include "client/ring/write_result.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace ranklog::internal {
namespace {

TEST(WriteResultTest, EachRefusalHasItsCounter) {
  const auto spool = std::make_unique<v1::SpoolHeader>();
  const std::pair<WriteResult, const std::atomic<uint64_t>*> counters[] = {
      {WriteResult::kRingFull, &spool->lost_ring_full},
      {WriteResult::kInvalid, &spool->lost_invalid},
      {WriteResult::kStepBehind, &spool->lost_step_behind},
      {WriteResult::kTooLarge, &spool->lost_too_large},
      {WriteResult::kAfterFinish, &spool->lost_after_finish}};
  for (const auto& [result, counter] : counters) {
    CountLoss(result, *spool);
    EXPECT_EQ(*counter, 1u) << static_cast<int>(result);
  }
  CountLoss(WriteResult::kInterrupting, *spool);
  EXPECT_EQ(spool->lost_invalid, 2u);
}

TEST(WriteResultTest, TakenRowIsNoLoss) {
  const auto spool = std::make_unique<v1::SpoolHeader>();
  CountLoss(WriteResult::kTaken, *spool);
  EXPECT_EQ(spool->lost_ring_full + spool->lost_invalid + spool->lost_step_behind +
                spool->lost_too_large + spool->lost_after_finish,
            0u);
  EXPECT_STREQ(WhyRefused(WriteResult::kTaken), "");
}

}  // namespace
}  // namespace ranklog::internal
