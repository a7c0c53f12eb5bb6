// What Log() returned true for survives the rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/time/clock.h"
#include "tests/integration/counting_job.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

TEST(KillRankTest, EveryRowThatLogReturnedForIsInTheStoreOnce) {  // S19
  Node node;
  node.Start();
  std::mt19937 random(std::random_device{}());
  for (int kill = 0; kill < 20; ++kill) {
    const std::string job = "job-" + std::to_string(kill);
    SCOPED_TRACE(job);
    CountingJob counting(node, job, /*rows=*/0, {{"RANKLOG_SPOOL_BYTES", "1048576"}});
    ASSERT_TRUE(counting.WaitForReturned(1));
    // The moment is the point of the test: anywhere between the first row and some hundred flushes.
    absl::SleepFor(absl::Milliseconds(random() % 200));
    counting.rank().Kill();

    ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded(job); }));
    const model::Run run = node.GetRun(job);
    EXPECT_EQ(run.state, model::RunState::kCrashed);
    EXPECT_THAT(run.reason, HasSubstr("ended without Finish()"));
    counting.ExpectEveryReturnedRowOnce();
    if (HasFailure()) break;
  }
}

TEST(KillRankTest, AnotherRankOfTheNodeGoesOn) {  // S19
  Node node;
  node.Start();
  CountingJob killed(node, "killed", /*rows=*/100);
  CountingJob living(node, "living", /*rows=*/0, {{"RANKLOG_SPOOL_BYTES", "1048576"}});
  ASSERT_TRUE(killed.WaitForReturned(100));
  ASSERT_TRUE(living.WaitForReturned(100));
  killed.rank().Kill();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("killed"); }));
  EXPECT_FALSE(node.RunHasEnded("living"));
  EXPECT_EQ(living.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("living"); }));
  EXPECT_EQ(node.GetRun("living").state, model::RunState::kFinished);
  killed.ExpectEveryReturnedRowOnce();
  living.ExpectEveryReturnedRowOnce();
}

}  // namespace
}  // namespace ranklog::testing
