// A pool of forked processes, each with runs of its own.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/integration/rank_counter.h"

namespace ranklog::testing {
namespace {

class PoolTest : public ::testing::TestWithParam<bool> {};

TEST_P(PoolTest, EachProcessHasItsOwnRuns) {  // S6
  TempDir dir;
  Node node;
  node.Start();
  ChildProcess::Options options;
  options.environment = node.RankEnvironment("job", 0, 0, 1, 1);
  options.environment["RANKLOG_DESTINATIONS"] = "local";
  std::vector<std::string> args = {ATTACHING_RANK, dir.File("counter"), "pool", "6", "3"};
  if (GetParam()) args.emplace_back("run");
  ChildProcess pool(args, options);
  ASSERT_EQ(pool.Wait(), 0) << pool.Output();
  EXPECT_EQ(MapRankCounter(dir.File("counter"))->refused, 0u);
  for (int process = 0; process < 6; ++process) {
    for (int i = 0; i < 3; ++i) {
      const std::string id = "pool-" + std::to_string(process) + "-" + std::to_string(i);
      ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded(id); })) << id;
      const model::Run run = node.GetRun(id);
      EXPECT_EQ(run.rows, 10u) << id;
      EXPECT_EQ(run.state, model::RunState::kFinished) << id << ": " << run.reason;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutRunOfTheParent, PoolTest, ::testing::Bool());

}  // namespace
}  // namespace ranklog::testing
