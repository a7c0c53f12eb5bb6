#include "service/deliver/tracker/run_breakers.h"

#include <gtest/gtest.h>

namespace ranklog::deliver {
namespace {

constexpr absl::Duration kOpen = absl::ZeroDuration();

class RunBreakersTest : public ::testing::Test {
 protected:
  absl::Time now_ = absl::UnixEpoch();
  CircuitBreakers breakers_{Backoff::Options{}, [this] { return now_; }};
  CircuitBreaker* const server_ = breakers_.Of("server");
  CircuitBreaker* const project_ = breakers_.Of("project");
  RunBreakers run_{server_, project_};
};

TEST_F(RunBreakersTest, OpenProjectLeavesServerFree) {
  now_ += server_->Failed(absl::nullopt, "away");  // now it lets in one caller at a time
  project_->OpenFor(absl::Seconds(7));
  EXPECT_EQ(run_.Enter(), absl::Seconds(7));
  EXPECT_EQ(server_->Enter(), kOpen);
}

TEST_F(RunBreakersTest, FailureStopsAllRuns) {
  ASSERT_EQ(run_.Enter(), kOpen);
  const auto wait = run_.Failed(/*over_limit=*/false, absl::nullopt, "away");
  run_.Leave();
  ASSERT_TRUE(wait.has_value());
  EXPECT_EQ(server_->Enter(), *wait - absl::Milliseconds(100)) << "others try first";
  EXPECT_EQ(run_.why(), "away");
}

TEST_F(RunBreakersTest, RunFailingAloneStopsItself) {
  const auto wait = run_.Failed(/*over_limit=*/false, absl::nullopt, "away");
  ASSERT_TRUE(wait.has_value());
  now_ += *wait;
  server_->Answered();  // to another run
  EXPECT_FALSE(run_.Failed(/*over_limit=*/false, absl::nullopt, "away").has_value());
  EXPECT_EQ(server_->Enter(), kOpen);
  server_->Answered();
  run_.Succeeded();
  EXPECT_TRUE(run_.Failed(/*over_limit=*/false, absl::nullopt, "away").has_value());
}

TEST_F(RunBreakersTest, LimitStopsOnlyTheProject) {
  const auto wait = run_.Failed(/*over_limit=*/true, absl::Seconds(9), "too many requests");
  EXPECT_EQ(wait, absl::Seconds(9));
  EXPECT_EQ(server_->Enter(), kOpen);
  EXPECT_EQ(project_->Enter(), absl::Seconds(9));
}

TEST_F(RunBreakersTest, QuotaPausesTheProject) {
  run_.Answered(absl::Seconds(3));
  EXPECT_EQ(server_->Enter(), kOpen);
  EXPECT_EQ(project_->Enter(), absl::Seconds(3));
}

}  // namespace
}  // namespace ranklog::deliver
