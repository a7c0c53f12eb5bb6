// Rows for which Log() returned true survive the daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/time/clock.h"
#include "tests/integration/counting_job.h"

namespace ranklog::testing {
namespace {

TEST(KillDaemonTest, KilledDaemonLosesAndRepeatsNothing) {
  Node node;
  CountingJob counting(node, "job", /*rows=*/0, {{"RANKLOG_SPOOL_BYTES", "1048576"}});
  std::mt19937 random(std::random_device{}());
  for (int kill = 0; kill < 10; ++kill) {
    node.Start();
    const uint64_t before = counting.returned();
    // The ring is small: beyond its size, rows are taken only when the daemon acknowledges some.
    ASSERT_TRUE(counting.WaitForReturned(before + 50'000)) << "after kill " << kill;
    absl::SleepFor(absl::Milliseconds(random() % 100));  // any moment of a commit
    node.Kill();
  }
  node.Start();
  EXPECT_EQ(counting.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  EXPECT_EQ(node.GetRun("job").state, model::RunState::kFinished);
  counting.ExpectEveryReturnedRowOnce();
}

TEST(KillDaemonTest, RankAndDaemonKillLosesNothing) {
  Node node;
  node.Start();
  CountingJob counting(node, "job", /*rows=*/0, {{"RANKLOG_SPOOL_BYTES", "1048576"}});
  ASSERT_TRUE(counting.WaitForReturned(10'000));
  node.Kill();
  counting.rank().Kill();
  node.Start();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  EXPECT_EQ(node.GetRun("job").state, model::RunState::kCrashed);
  counting.ExpectEveryReturnedRowOnce();
}

}  // namespace
}  // namespace ranklog::testing
