#include "service/deliver/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::deliver {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

constexpr absl::Duration kOpen = absl::ZeroDuration();

class GateTest : public ::testing::Test {
 protected:
  absl::Time now_ = absl::UnixEpoch();
  Gates gates_{Backoff::Options{}, [this] { return now_; }};
  Gate& gate_ = *gates_.Of("https://server");
};

TEST_F(GateTest, ClosedBreakerAllowsAllRequests) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(gate_.Enter(), kOpen);
  EXPECT_EQ(gates_.Of("https://server"), &gate_);
  EXPECT_NE(gates_.Of("https://another"), &gate_);
}

TEST_F(GateTest, FailureOpensTheBreaker) {
  ASSERT_EQ(gate_.Enter(), kOpen);
  const absl::Duration wait = gate_.Failed(absl::nullopt, "away");
  gate_.Leave();
  EXPECT_THAT(wait, AllOf(Ge(absl::Seconds(2)), Le(absl::Seconds(2.5))));
  EXPECT_EQ(gate_.Enter(), wait);
  now_ += wait;
  EXPECT_EQ(gate_.Enter(), kOpen);
}

TEST_F(GateTest, TellsWhyItIsClosedUntilOneIsAnswered) {
  EXPECT_EQ(gate_.why(), "");
  now_ += gate_.Failed(absl::nullopt, "away");
  EXPECT_EQ(gate_.why(), "away");
  gate_.Failed(absl::Seconds(7), "busy");
  EXPECT_EQ(gate_.why(), "busy");
  gate_.Answered();
  EXPECT_EQ(gate_.why(), "");
  gate_.CloseFor(absl::Seconds(7));
  EXPECT_EQ(gate_.why(), "") << "that is as usual";
}

TEST_F(GateTest, OpenBreakerAllowsOneProbe) {
  ASSERT_EQ(gate_.Enter(), kOpen);
  now_ += gate_.Failed(absl::nullopt, "away");
  gate_.Leave();
  ASSERT_EQ(gate_.Enter(), kOpen);
  EXPECT_EQ(gate_.Enter(), absl::Milliseconds(10));
  now_ += absl::Milliseconds(100);
  EXPECT_EQ(gate_.Enter(), absl::Milliseconds(100));
  now_ += absl::Seconds(10);
  EXPECT_EQ(gate_.Enter(), absl::Seconds(1));
  gate_.Leave();
  ASSERT_EQ(gate_.Enter(), kOpen);
  gate_.Answered();
  EXPECT_EQ(gate_.Enter(), kOpen);
}

TEST_F(GateTest, ThoseThatFailTogetherCountOnce) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(gate_.Enter(), kOpen);
  const absl::Duration wait = gate_.Failed(absl::nullopt, "away");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gate_.Failed(absl::nullopt, "away"), wait);
  for (int i = 0; i < 4; ++i) gate_.Leave();
  now_ += wait;
  EXPECT_THAT(gate_.Failed(absl::nullopt, "away"),
              AllOf(Ge(absl::Seconds(4)), Le(absl::Seconds(5))));
}

TEST_F(GateTest, OfThoseThatAreAskedToWaitTheLongestCounts) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(gate_.Enter(), kOpen);
  EXPECT_EQ(gate_.Failed(absl::Seconds(1), "away"), absl::Seconds(1));
  EXPECT_EQ(gate_.Failed(absl::Seconds(10), "away"), absl::Seconds(10));
  EXPECT_EQ(gate_.Failed(absl::Seconds(5), "away"), absl::Seconds(10));
  EXPECT_EQ(gate_.Failed(absl::InfiniteDuration(), "away"), absl::Hours(1));
}

TEST_F(GateTest, ImmediateRetryAfterStillBacksOff) {
  EXPECT_GE(gate_.Failed(absl::ZeroDuration(), "away"), absl::Seconds(2));
}

TEST_F(GateTest, RetryAfterOpensAHealthyBreaker) {
  gate_.Answered();
  gate_.CloseFor(absl::Seconds(30));
  gate_.CloseFor(absl::Seconds(3));
  EXPECT_EQ(gate_.Enter(), absl::Seconds(30));
  now_ += absl::Seconds(30);
  EXPECT_EQ(gate_.Enter(), kOpen);
  gate_.CloseFor(absl::InfiniteDuration());
  EXPECT_EQ(gate_.Enter(), absl::Hours(1));
}

TEST_F(GateTest, AnAnswerMakesTheWaitsShortAgain) {
  for (int i = 0; i < 10; ++i) now_ += gate_.Failed(absl::nullopt, "away");
  EXPECT_EQ(gate_.answers(), 0u);
  gate_.Answered();
  EXPECT_EQ(gate_.answers(), 1u);
  EXPECT_THAT(gate_.Failed(absl::nullopt, "away"), Le(absl::Seconds(2.5)));
}

TEST_F(GateTest, StaysClosedForAsLongAsItIsAsked) {
  EXPECT_EQ(gate_.Failed(absl::Seconds(42), "away"), absl::Seconds(42));
  gate_.Answered();  // to a request that was already in flight
  now_ += absl::Seconds(41);
  EXPECT_EQ(gate_.Enter(), absl::Seconds(1));
  now_ += absl::Seconds(1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(gate_.Enter(), kOpen);
}

}  // namespace
}  // namespace ranklog::deliver
