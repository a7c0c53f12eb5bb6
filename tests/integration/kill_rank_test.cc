// Rows for which Log() returned true survive the rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/time/clock.h"
#include "tests/integration/counting_job.h"
#include "tests/support/figures.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
constexpr int kKillsInCi = 40;  // half a second each
#else
constexpr int kKillsInCi = 100;
#endif

// Eight ranks at a time, each killed at its own moment.
TEST(KillRankTest, EveryReturnedRowIsStoredOnce) {  // S19
  Node node;
  node.Start();
  const int kills = getenv("RANKLOG_SOAK") != nullptr ? 1000 : kKillsInCi;
  constexpr int kAtOnce = 8;
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  uint64_t rows = 0;
  uint64_t wrong = 0;
  for (int kill = 0; kill < kills && !::testing::Test::HasFailure(); kill += kAtOnce) {
    std::vector<std::unique_ptr<CountingJob>> jobs;
    const auto name = [kill](int n) { return "job-" + std::to_string(kill + n); };
    for (int n = 0; n < kAtOnce; ++n) {
      jobs.push_back(std::make_unique<CountingJob>(
          node, name(n), /*rows=*/0,
          std::map<std::string, std::string>{{"RANKLOG_SPOOL_BYTES", "262144"}}));
    }
    for (const auto& job : jobs) ASSERT_TRUE(job->WaitForReturned(1));
    for (const auto& job : jobs) {
      // The test needs a random moment between the first row and the first few flushes.
      absl::SleepFor(absl::Microseconds(random() % 20'000));
      job->rank().Kill();
    }
    for (int n = 0; n < kAtOnce; ++n) {
      SCOPED_TRACE(name(n));
      ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded(name(n)); }));
      const model::Run run = node.GetRun(name(n));
      EXPECT_EQ(run.state, model::RunState::kCrashed);
      EXPECT_THAT(run.reason, HasSubstr(" without Finish()"));
      wrong += jobs[n]->ExpectEveryReturnedRowOnce();
      rows += jobs[n]->returned();
    }
  }
  Report("ranks killed", kills, "");
  Report("rows of killed ranks", static_cast<double>(rows), "");
  ReportAtMost("rows lost or doubled", static_cast<double>(wrong), "", 0);
}

TEST(KillRankTest, OtherRankOfNodeContinues) {  // S19
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
