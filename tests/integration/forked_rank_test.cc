// The rows of a rank and of its forked children are joined, whichever of them the daemon meets first.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/integration/node.h"

namespace ranklog::testing {
namespace {

// The daemon starts after the rank has forked and one child has ended.
TEST(ForkedRankTest, RowsOfAllProcessesAreJoined) {  // S7
  Node node;
  ChildProcess::Options options;
  options.environment = node.RankEnvironment("job", 0, 0, 1, 1);
  options.environment["RANKLOG_DESTINATIONS"] = "local";
  ChildProcess rank({ENDING_RANK, "early", "family"}, options);
  ASSERT_TRUE(WaitFor([&] { return rank.Output().find("forked") != std::string::npos; }))
      << rank.Output();
  node.Start();
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));

  const auto ranklog = [&](const std::string& command) {
    return RunToEnd({RANKLOG_CLI, command, "job", "--state-dir", node.state_dir()}, options);
  };
  const Finished verified = ranklog("verify");
  EXPECT_EQ(verified.code, 0) << verified.output;
  std::istringstream lines(ranklog("export").output);
  int64_t steps = 0, brief = 0, side = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    EXPECT_EQ(row["_step"], steps++);
    EXPECT_EQ(row["loss"], row["_step"]);
    brief += row.value("brief", int64_t{-1}) == row["_step"];
    side += row.value("side", int64_t{-1}) == row["_step"];
  }
  EXPECT_EQ(steps, 200);
  EXPECT_EQ(brief, 50);
  EXPECT_EQ(side, 50);
}

}  // namespace
}  // namespace ranklog::testing
