#include "service/aggregate/join/step_wait.h"

#include <gtest/gtest.h>

namespace ranklog::aggregate {
namespace {

constexpr absl::Duration kStepWait = absl::Seconds(30);
constexpr absl::Duration kFirstRowWait = absl::Seconds(5);
constexpr absl::Duration kSilentWait = absl::Seconds(1);

class StepWaitTest : public ::testing::Test {
 protected:
  StepWaitTest() {
    other_.passed_step = 1;
    other_.silent = false;
    other_.joined = start_;
    wait_.Passed(3, start_);
  }
  absl::Time Until(int64_t step, absl::Time now, bool absent_ranks = false) {
    return wait_.Until(step, /*attempt=*/1, {&other_}, absent_ranks, now);
  }

  const absl::Time start_ = absl::FromUnixSeconds(1000);
  StepWait wait_{{.step = kStepWait, .first_row = kFirstRowWait, .silent = kSilentWait}};
  StreamRows other_;
};

TEST_F(StepWaitTest, PassedStepDoesNotWait) { EXPECT_EQ(Until(1, start_), absl::InfinitePast()); }

TEST_F(StepWaitTest, WaitBeginsWhenPrimariesPassed) {
  const absl::Time later = start_ + absl::Seconds(9);
  wait_.Passed(5, later);
  EXPECT_EQ(Until(2, later), start_ + kStepWait);
  EXPECT_EQ(Until(4, later), later + kStepWait);
}

TEST_F(StepWaitTest, SilentStreamGetsShorterWaits) {
  EXPECT_EQ(Until(2, start_), start_ + kStepWait);
  StepWait::GiveUp(2, /*attempt=*/1, {&other_});
  EXPECT_EQ(Until(2, start_), start_ + kFirstRowWait);
  const absl::Time later = start_ + absl::Seconds(9);
  wait_.Passed(5, later);
  EXPECT_EQ(Until(4, later), later + kSilentWait);
}

TEST_F(StepWaitTest, AbsentRanksGetFirstRowWait) {
  EXPECT_EQ(Until(1, start_, /*absent_ranks=*/true), start_ + kFirstRowWait);
  const absl::Time later = start_ + absl::Seconds(9);
  EXPECT_EQ(Until(1, later, /*absent_ranks=*/true), start_ + kFirstRowWait);
  wait_.BeginAttempt();
  EXPECT_EQ(Until(1, later, /*absent_ranks=*/true), later + kFirstRowWait);
}

TEST_F(StepWaitTest, LaterAttemptIsNotAwaited) {
  other_.attempt = 2;
  EXPECT_EQ(Until(2, start_), absl::InfinitePast());
  StepWait::GiveUp(2, /*attempt=*/1, {&other_});
  EXPECT_FALSE(other_.silent);
}

TEST_F(StepWaitTest, StepWaitLimitsOtherWaits) {
  StepWait wait({.step = absl::Seconds(2), .first_row = kFirstRowWait, .silent = kSilentWait});
  wait.Passed(3, start_);
  EXPECT_EQ(wait.Until(1, /*attempt=*/1, {}, /*absent_ranks=*/true, start_),
            start_ + absl::Seconds(2));
}

}  // namespace
}  // namespace ranklog::aggregate
