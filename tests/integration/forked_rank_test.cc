// The rows of a rank and of its forked children: none is lost, and they are joined, whichever process
// the daemon meets first.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/node.h"
#include "tests/integration/rank_counter.h"

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

// A rank that forks, and its store.
class ForkingRank {
 public:
  ForkingRank(const Node& node, const std::string& how,
              const std::map<std::string, std::string>& extra = {})
      : node_(node) {
    ChildProcess::Options options;
    options.environment = node.RankEnvironment("job", 0, 0, 1, 1);
    for (const auto& [name, value] : extra) options.environment[name] = value;
    options.environment["RANKLOG_DESTINATIONS"] = "local";
    rank_.emplace(std::vector<std::string>{FORKING_RANK, dir_.File("counter"), how}, options);
  }
  ~ForkingRank() { counter_->stop = 1; }

  RankCounter& counter() { return *counter_; }
  ChildProcess& rank() { return *rank_; }

  // Waits until its processes have logged `rows` more rows.
  bool WaitForMore(uint64_t rows) {
    const uint64_t enough = counter_->returned + rows;
    return WaitFor([&] { return counter_->returned >= enough; });
  }

  // The rows of all processes that are in the store.
  uint64_t StoredRows() const {
    const auto reader = node_.Reader();
    const auto streams = reader->Streams(node_.GetRun("job").id);
    uint64_t rows = 0;
    if (!streams.ok()) return 0;
    for (const model::Stream& stream : *streams) rows += stream.durable_seq;
    return rows;
  }

  void ExpectEveryRowOnce() {
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
    EXPECT_EQ(counter_->refused, 0u);
    EXPECT_EQ(StoredRows(), counter_->returned);
    EXPECT_TRUE(WaitFor([&] { return std::filesystem::is_empty(node_.spool_dir()); }));
  }

 private:
  const Node& node_;
  TempDir dir_;
  RankCounter* const counter_ = MapRankCounter(dir_.File("counter"));
  std::optional<ChildProcess> rank_;
};

TEST(ForkedRankTest, ChildrenForkedDuringLogLoseNothing) {  // S7
  Node node;
  node.Start();
  ForkingRank forking(node, "busy");
  ASSERT_EQ(forking.rank().Wait(), 0) << forking.rank().Output();
  forking.ExpectEveryRowOnce();
}

TEST(ForkedRankTest, DaemonReadsRowsOfLiveChildren) {  // S7
  Node node;
  node.Start();
  ForkingRank forking(node, "tree");
  ASSERT_TRUE(forking.WaitForMore(1000));
  const uint64_t logged = forking.counter().returned;
  EXPECT_TRUE(WaitFor([&] { return forking.StoredRows() >= logged; }));
  forking.counter().stop = 1;
  ASSERT_EQ(forking.rank().Wait(), 0) << forking.rank().Output();
  forking.ExpectEveryRowOnce();
}

TEST(ForkedRankTest, DaemonKilledBesideLiveChildrenLosesNothing) {  // S7
  Node node;
  ForkingRank forking(node, "tree");
  std::mt19937 random(std::random_device{}());
  for (int kill = 0; kill < 5; ++kill) {
    node.Start();
    ASSERT_TRUE(forking.WaitForMore(1000)) << "after kill " << kill;
    absl::SleepFor(absl::Milliseconds(random() % 200));
    node.Kill();
  }
  node.Start();
  forking.counter().stop = 1;
  ASSERT_EQ(forking.rank().Wait(), 0) << forking.rank().Output();
  forking.ExpectEveryRowOnce();
}

// The daemon meets the children before it has read the parent's ring.
TEST(ForkedRankTest, RowsOfAnEarlyForkAreInTheRun) {  // S7
  Node node;
  node.Start();
  ForkingRank forking(node, "early");
  EXPECT_EQ(forking.rank().Wait(), -SIGKILL);
  ASSERT_TRUE(WaitFor([&] { return forking.counter().returned == 250; }));
  forking.ExpectEveryRowOnce();
  const auto streams = node.Reader()->Streams(node.GetRun("job").id);
  ASSERT_TRUE(streams.ok());
  for (const model::Stream& stream : *streams) EXPECT_EQ(stream.late_rows, 0u);
}

// Its parent has no daemon and no run.
TEST(ForkedRankTest, ChildsOwnRunStartsADaemon) {  // S7
  Node node;
  ForkingRank forking(node, "own",
                      {{"RANKLOG_START_DAEMON", "1"},
                       {"RANKLOG_DAEMON", RANKLOGD},
                       {"RANKLOG_STATE_DIR", node.state_dir()}});
  EXPECT_EQ(forking.rank().Wait(), 0) << forking.rank().Output();
  EXPECT_EQ(forking.counter().returned, 10u);
  ChildProcess::Options options;
  RunToEnd({RANKLOG_CLI, "stop", "--state-dir", node.state_dir()}, options);
  EXPECT_EQ(forking.StoredRows(), 10u);
}

// The parent is killed first, its children end after it.
TEST(ForkedRankTest, ChildrenOfAKilledRankLoseNothing) {  // S7
  Node node;
  node.Start();
  ForkingRank forking(node, "orphaned");
  ASSERT_TRUE(forking.WaitForMore(1000));
  forking.counter().stop = 1;
  EXPECT_EQ(forking.rank().Wait(), -SIGKILL);
  forking.ExpectEveryRowOnce();
}

}  // namespace
}  // namespace ranklog::testing
