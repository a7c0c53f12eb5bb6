#include "client/ring/write_result.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace ranklog::internal {
namespace {

uint64_t LostRows(const v1::SpoolHeader& spool) {
  uint64_t rows = 0;
  for (const LossReason& reason : kLossReasons) rows += spool.*reason.in_ring;
  return rows;
}

TEST(WriteResultTest, EachRefusalHasItsCounter) {
  const auto spool = std::make_unique<v1::SpoolHeader>();
  uint64_t refused = 0;
  for (const LossReason& reason : kLossReasons) {
    CountLoss(reason.result, *spool);
    EXPECT_EQ(spool.get()->*reason.in_ring, 1u) << static_cast<int>(reason.result);
    EXPECT_EQ(LostRows(*spool), ++refused);
  }
  CountLoss(WriteResult::kInterrupting, *spool);
  EXPECT_EQ(spool->lost_invalid, 2u);
}

TEST(WriteResultTest, EachReasonHasMembersOfOneName) {
  const auto spool = std::make_unique<v1::SpoolHeader>();
  Stats stats;
  v1::Losses losses;
  uint64_t rows = 0;
  for (const LossReason& reason : kLossReasons) {
    spool.get()->*reason.in_ring = stats.*reason.in_stats = ++rows;
    (losses.*reason.report)(rows);
  }
  EXPECT_EQ(spool->lost_ring_full, stats.lost_ring_full);
  EXPECT_EQ(losses.ring_full(), stats.lost_ring_full);
  EXPECT_EQ(spool->lost_invalid, stats.lost_invalid);
  EXPECT_EQ(losses.invalid(), stats.lost_invalid);
  EXPECT_EQ(spool->lost_step_behind, stats.lost_step_behind);
  EXPECT_EQ(losses.step_behind(), stats.lost_step_behind);
  EXPECT_EQ(spool->lost_too_large, stats.lost_too_large);
  EXPECT_EQ(losses.too_large(), stats.lost_too_large);
  EXPECT_EQ(spool->lost_after_finish, stats.lost_after_finish);
  EXPECT_EQ(losses.after_finish(), stats.lost_after_finish);
}

TEST(WriteResultTest, TakenRowIsNoLoss) {
  const auto spool = std::make_unique<v1::SpoolHeader>();
  for (WriteResult taken : {WriteResult::kTaken, WriteResult::kTakenInPart}) {
    CountLoss(taken, *spool);
    EXPECT_EQ(LostRows(*spool), 0u);
    EXPECT_STREQ(RefusalReason(taken), "");
  }
}

}  // namespace
}  // namespace ranklog::internal
