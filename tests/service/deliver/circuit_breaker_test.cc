#include "service/deliver/http/circuit_breaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::deliver {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

constexpr absl::Duration kOpen = absl::ZeroDuration();

class CircuitBreakerTest : public ::testing::Test {
 protected:
  absl::Time now_ = absl::UnixEpoch();
  CircuitBreakers breakers_{Backoff::Options{}, [this] { return now_; }};
  CircuitBreaker& breaker_ = *breakers_.Of("https://server");
};

TEST_F(CircuitBreakerTest, ClosedBreakerAllowsAllRequests) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(breaker_.Enter(), kOpen);
  EXPECT_EQ(breakers_.Of("https://server"), &breaker_);
  EXPECT_NE(breakers_.Of("https://another"), &breaker_);
}

TEST_F(CircuitBreakerTest, FailureOpensTheBreaker) {
  ASSERT_EQ(breaker_.Enter(), kOpen);
  const absl::Duration wait = breaker_.Failed(absl::nullopt, "away");
  breaker_.Leave();
  EXPECT_THAT(wait, AllOf(Ge(absl::Seconds(2)), Le(absl::Seconds(2.5))));
  EXPECT_EQ(breaker_.Enter(), wait);
  now_ += wait;
  EXPECT_EQ(breaker_.Enter(), kOpen);
}

TEST_F(CircuitBreakerTest, ReportsReasonUntilAnswer) {
  EXPECT_EQ(breaker_.why(), "");
  now_ += breaker_.Failed(absl::nullopt, "away");
  EXPECT_EQ(breaker_.why(), "away");
  breaker_.Failed(absl::Seconds(7), "busy");
  EXPECT_EQ(breaker_.why(), "busy");
  breaker_.Answered();
  EXPECT_EQ(breaker_.why(), "");
  breaker_.OpenFor(absl::Seconds(7));
  EXPECT_EQ(breaker_.why(), "") << "that is as usual";
}

TEST_F(CircuitBreakerTest, OpenBreakerAllowsOneProbe) {
  ASSERT_EQ(breaker_.Enter(), kOpen);
  now_ += breaker_.Failed(absl::nullopt, "away");
  breaker_.Leave();
  ASSERT_EQ(breaker_.Enter(), kOpen);
  EXPECT_EQ(breaker_.Enter(), absl::Milliseconds(10));
  now_ += absl::Milliseconds(100);
  EXPECT_EQ(breaker_.Enter(), absl::Milliseconds(100));
  now_ += absl::Seconds(10);
  EXPECT_EQ(breaker_.Enter(), absl::Seconds(1));
  breaker_.Leave();
  ASSERT_EQ(breaker_.Enter(), kOpen);
  breaker_.Answered();
  EXPECT_EQ(breaker_.Enter(), kOpen);
}

TEST_F(CircuitBreakerTest, ConcurrentFailuresCountOnce) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(breaker_.Enter(), kOpen);
  const absl::Duration wait = breaker_.Failed(absl::nullopt, "away");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(breaker_.Failed(absl::nullopt, "away"), wait);
  for (int i = 0; i < 4; ++i) breaker_.Leave();
  now_ += wait;
  EXPECT_THAT(breaker_.Failed(absl::nullopt, "away"),
              AllOf(Ge(absl::Seconds(4)), Le(absl::Seconds(5))));
}

TEST_F(CircuitBreakerTest, LongestRetryAfterCounts) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(breaker_.Enter(), kOpen);
  EXPECT_EQ(breaker_.Failed(absl::Seconds(1), "away"), absl::Seconds(1));
  EXPECT_EQ(breaker_.Failed(absl::Seconds(10), "away"), absl::Seconds(10));
  EXPECT_EQ(breaker_.Failed(absl::Seconds(5), "away"), absl::Seconds(10));
  EXPECT_EQ(breaker_.Failed(absl::InfiniteDuration(), "away"), absl::Hours(1));
}

TEST_F(CircuitBreakerTest, ImmediateRetryAfterStillBacksOff) {
  EXPECT_GE(breaker_.Failed(absl::ZeroDuration(), "away"), absl::Seconds(2));
}

TEST_F(CircuitBreakerTest, RetryAfterOpensAHealthyBreaker) {
  breaker_.Answered();
  breaker_.OpenFor(absl::Seconds(30));
  breaker_.OpenFor(absl::Seconds(3));
  EXPECT_EQ(breaker_.Enter(), absl::Seconds(30));
  now_ += absl::Seconds(30);
  EXPECT_EQ(breaker_.Enter(), kOpen);
  breaker_.OpenFor(absl::InfiniteDuration());
  EXPECT_EQ(breaker_.Enter(), absl::Hours(1));
}

TEST_F(CircuitBreakerTest, AnswerResetsBackoff) {
  for (int i = 0; i < 10; ++i) now_ += breaker_.Failed(absl::nullopt, "away");
  EXPECT_EQ(breaker_.answers(), 0u);
  breaker_.Answered();
  EXPECT_EQ(breaker_.answers(), 1u);
  EXPECT_THAT(breaker_.Failed(absl::nullopt, "away"), Le(absl::Seconds(2.5)));
}

TEST_F(CircuitBreakerTest, StaysOpenForWholeRetryAfter) {
  EXPECT_EQ(breaker_.Failed(absl::Seconds(42), "away"), absl::Seconds(42));
  breaker_.Answered();  // to a request that was already in flight
  now_ += absl::Seconds(41);
  EXPECT_EQ(breaker_.Enter(), absl::Seconds(1));
  now_ += absl::Seconds(1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(breaker_.Enter(), kOpen);
}

}  // namespace
}  // namespace ranklog::deliver
