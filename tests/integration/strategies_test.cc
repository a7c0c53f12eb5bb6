// The log strategies with real programs. There are two nodes (two daemons, distinguished by
// torchrun's variables) with two ranks each, and a W&B server that detects gaps and overwrites. S2,
// S3, S4, S6.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kStrategyRows = 20;

class StrategiesTest : public ::testing::Test {
 protected:
  // Starts both daemons and the four ranks of `job` under `strategy`, and waits for the ranks.
  void RunJob(const std::string& job, const std::string& strategy,
              const std::string& statistics = "") {
    const std::map<std::string, std::string> settings = {{"RANKLOG_LOG_STRATEGY", strategy},
                                                         {"RANKLOG_RANK_STATISTICS", statistics},
                                                         {"WANDB_BASE_URL", wandb_.url()},
                                                         {"WANDB_API_KEY", std::string(40, 'k')},
                                                         {"WANDB_NAME", "the name"}};
    std::vector<ChildProcess> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      ranks.push_back(nodes_[rank / 2].StartRank(job, rank, rank % 2, 4, 2,
                                                 {std::to_string(kStrategyRows)}, settings));
    }
    for (ChildProcess& rank : ranks) ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  }

  // The same for cyclic ranks, as with `srun -m cyclic` or `mpirun --map-by node`: ranks 0 and 2
  // are on the first node. `count`: the launcher sets local rank and local world size. The first
  // rank of each node starts after the other one.
  void RunCyclicJob(const std::string& strategy, bool count) {
    std::map<std::string, std::string> settings = WandbAt(wandb_.url());
    settings["RANKLOG_LOG_STRATEGY"] = strategy;
    settings["WANDB_NAME"] = "the name";
    std::vector<ChildProcess> ranks;
    for (int rank : {2, 3, 0, 1}) {
      Node& node = nodes_[rank % 2];
      if (!count) {
        for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"}) {
          settings[name] = "";
        }
      }
      ranks.push_back(
          node.StartRank("job", rank, rank / 2, 4, 2, {std::to_string(kStrategyRows)}, settings));
      if (rank < 2) continue;
      ASSERT_TRUE(WaitFor([&] { return HasRows(node, rank); }));
    }
    for (ChildProcess& rank : ranks) ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  }
  static bool HasRows(const Node& node, int rank) {
    const auto reader = node.Reader();
    const auto runs = reader->Runs();
    if (!runs.ok() || runs->empty()) return false;
    const auto streams = reader->Streams(runs->front().id);
    return streams.ok() && !streams->empty() &&
           streams->front().key.rank == static_cast<uint32_t>(rank) &&
           streams->front().durable_seq == kStrategyRows;
  }

  void SetUp() override {
    for (Node& node : nodes_) node.Start();
  }

  bool Complete(const std::vector<std::string>& run_ids) {
    return wandb_.WaitFor(
        [&](const std::map<std::string, FakeWandb::Run>& runs) {
          for (const std::string& id : run_ids) {
            if (runs.count(id) == 0 || !runs.at(id).complete) return false;
          }
          return true;
        },
        absl::Seconds(60));
  }

  FakeWandb wandb_;
  Node nodes_[2];
};

std::vector<std::string> Names(const std::map<std::string, FakeWandb::Run>& runs) {
  std::vector<std::string> names;
  for (const auto& [id, run] : runs) names.push_back(id);
  return names;
}

// Checks the rows of `rank`: in order, each with its own values.
void ExpectRowsOfRank(const FakeWandb::Run& run, int rank) {
  ASSERT_THAT(run.history, SizeIs(kStrategyRows));
  for (int step = 0; step < kStrategyRows; ++step) {
    const json row = ParseExtendedJson(run.history[step]);
    EXPECT_EQ(row["_step"], step);
    EXPECT_EQ(row["loss"], 1000 * rank + step);
    EXPECT_EQ(row["shared"], rank);
  }
}

json ConfigValue(const FakeWandb::Run& run, const std::string& key) {
  return ParseExtendedJson(run.config)[key]["value"];
}

TEST_F(StrategiesTest, MainIsRankZeroWithStatistics) {
  RunJob("job", "main", "loss=mean,min,max,std,argmax; *=none");
  ASSERT_TRUE(Complete({"job"}));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_THAT(Names(wandb_.runs()), ::testing::ElementsAre("job"));
  const FakeWandb::Run run = wandb_.run("job");
  ExpectRowsOfRank(run, 0);
  EXPECT_EQ(run.variables["displayName"], "the name");
  EXPECT_EQ(run.exit_code, 0);
  for (int step = 0; step < kStrategyRows; ++step) {
    const json row = ParseExtendedJson(run.history[step]);
    EXPECT_EQ(row["rank_mean/loss"], 500 + step);
    EXPECT_EQ(row["rank_min/loss"], step);
    EXPECT_EQ(row["rank_max/loss"], 1000 + step);
    EXPECT_EQ(row["rank_std/loss"], 500);
    EXPECT_EQ(row["rank_argmax/loss"], 1);
    EXPECT_FALSE(row.contains("rank_mean/shared"));
  }
  EXPECT_EQ(ConfigValue(run, "lr"), 0.5);
  EXPECT_EQ(ConfigValue(run, "model"), json({{"layers", 2}, {"name", "tiny"}}));
  EXPECT_EQ(ConfigValue(run, "ranklog")["statistics_over"]["ranks"], json({0, 1}));
  EXPECT_EQ(ConfigValue(run, "ranklog")["statistics_over"]["of"], 4);
  EXPECT_EQ(ParseExtendedJson(run.summary)["loss"],
            json({{"min", 0}, {"last", kStrategyRows - 1}}));

  // The other node's rows are in its own store, under its first rank.
  ASSERT_TRUE(WaitFor([&] { return nodes_[1].RunHasEnded("job-2"); }));
  const auto reader = nodes_[1].Reader();
  const auto streams = reader->Streams(nodes_[1].GetRun("job-2").id);
  ASSERT_TRUE(streams.ok());
  ASSERT_THAT(*streams, SizeIs(2));
  for (const model::Stream& stream : *streams) EXPECT_EQ(stream.durable_seq, kStrategyRows);
}

// W&B refuses longer ids.
TEST_F(StrategiesTest, LongJobIdIsTruncated) {
  RunJob(std::string(128, 'j'), "all");
  ASSERT_TRUE(wandb_.WaitFor(
      [](const std::map<std::string, FakeWandb::Run>& runs) {
        return runs.size() == 4 && std::all_of(runs.begin(), runs.end(),
                                               [](const auto& run) { return run.second.complete; });
      },
      absl::Seconds(60)));
  int rank = 0;
  for (const auto& [id, run] : wandb_.runs()) {  // they differ at the end
    EXPECT_EQ(id.size(), 128u) << id;
    EXPECT_EQ(run.variables["displayName"], absl::StrCat("rank-", rank));
    ExpectRowsOfRank(run, rank++);
  }
}

TEST_F(StrategiesTest, NodeIsOneRunPerNode) {
  RunJob("job", "node");
  ASSERT_TRUE(Complete({"job-0", "job-2"}));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_THAT(Names(wandb_.runs()), ::testing::ElementsAre("job-0", "job-2"));
  for (int first : {0, 2}) {
    const FakeWandb::Run run = wandb_.run("job-" + std::to_string(first));
    ExpectRowsOfRank(run, first);
    EXPECT_EQ(run.variables["displayName"], "rank-" + std::to_string(first));
    EXPECT_EQ(run.variables["groupName"], "job");
    EXPECT_EQ(ConfigValue(run, "ranklog")["statistics_over"]["ranks"], json({first, first + 1}));
    const json row = ParseExtendedJson(run.history[3]);
    EXPECT_EQ(row["rank_max/loss"], 1000 * (first + 1) + 3);
    EXPECT_EQ(row["rank_max/shared"], first + 1);
    EXPECT_FALSE(row.contains("rank_std/loss"));
  }
}

TEST_F(StrategiesTest, AllIsOneRunPerRank) {
  RunJob("job", "all");
  ASSERT_TRUE(Complete({"job-0", "job-1", "job-2", "job-3"}));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_THAT(wandb_.runs(), SizeIs(4));
  for (int rank = 0; rank < 4; ++rank) {
    const FakeWandb::Run run = wandb_.run("job-" + std::to_string(rank));
    ExpectRowsOfRank(run, rank);
    EXPECT_EQ(run.variables["displayName"], "rank-" + std::to_string(rank));
    EXPECT_EQ(run.variables["groupName"], "job");
    EXPECT_EQ(ConfigValue(run, "rank"), rank);
    EXPECT_EQ(ConfigValue(run, "world_size"), 4);
    EXPECT_FALSE(ParseExtendedJson(run.history[0]).contains("rank_mean/loss"));
  }
}

// Checks the statistics over rank `first` and rank `first` + 2.
void ExpectStatisticsOfCyclicRanks(const FakeWandb::Run& run, int first) {
  ExpectRowsOfRank(run, first);
  EXPECT_EQ(ConfigValue(run, "ranklog")["statistics_over"]["ranks"], json({first, first + 2}));
  for (int step = 0; step < kStrategyRows; ++step) {
    EXPECT_EQ(ParseExtendedJson(run.history[step])["rank_max/loss"], 1000 * (first + 2) + step);
  }
}

TEST_F(StrategiesTest, CyclicRanksShareMainRun) {
  RunCyclicJob("main", /*count=*/true);
  ASSERT_TRUE(Complete({"job"}));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_THAT(Names(wandb_.runs()), ::testing::ElementsAre("job"));
  ExpectStatisticsOfCyclicRanks(wandb_.run("job"), 0);
  EXPECT_EQ(wandb_.run("job").variables["displayName"], "the name");
  ASSERT_TRUE(WaitFor([&] { return nodes_[1].RunHasEnded("job-1"); }));
  EXPECT_THAT(*nodes_[1].Reader()->Streams(nodes_[1].GetRun("job-1").id), SizeIs(2));
  EXPECT_EQ(nodes_[1].GetRun("job-1").rows, uint64_t{kStrategyRows});
}

TEST_F(StrategiesTest, CyclicRanksShareNodeRuns) {
  RunCyclicJob("node", /*count=*/true);
  ASSERT_TRUE(Complete({"job-0", "job-1"}));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_THAT(Names(wandb_.runs()), ::testing::ElementsAre("job-0", "job-1"));
  for (int first : {0, 1}) {
    const FakeWandb::Run run = wandb_.run("job-" + std::to_string(first));
    ExpectStatisticsOfCyclicRanks(run, first);
    EXPECT_EQ(run.variables["displayName"], "rank-" + std::to_string(first));
  }
}

// The number of ranks per node is unknown, but the node of rank 0 has its first rank.
TEST_F(StrategiesTest, RanksWithoutLocalRankShareRun) {
  RunCyclicJob("node", /*count=*/false);
  ASSERT_TRUE(Complete({"job-0", "job-1"}));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  EXPECT_THAT(Names(wandb_.runs()), ::testing::ElementsAre("job-0", "job-1"));
  for (int first : {0, 1}) {
    ExpectStatisticsOfCyclicRanks(wandb_.run("job-" + std::to_string(first)), first);
  }
}

// In most programs only rank 0 logs; in some only rank 0 attaches.
TEST_F(StrategiesTest, SilentRankDelaysNoRows) {
  const std::string stop = nodes_[0].socket() + ".stop";
  const absl::Time start = absl::Now();
  const auto start_rank = [&](const std::string& job, int rank, const char* rows) {
    return nodes_[0].StartRank(job, rank, rank, 2, 2, {rows, "0", "10000", stop});
  };
  ChildProcess ranks[] = {start_rank("silent", 1, "0"), start_rank("silent", 0, "1000000"),
                          start_rank("absent", 0, "1000000")};
  for (const char* job : {"silent", "absent"}) {
    EXPECT_TRUE(WaitFor([&] {
      const Finished show =
          RunToEnd({RANKLOG_CLI, "show", job, "--json", "--state-dir", nodes_[0].state_dir()});
      const json run = json::parse(show.output, nullptr, /*allow_exceptions=*/false);
      return run.is_object() && run.value("rows", 0) > 0;
    })) << job;
  }
  // 5 s for the first row of the other rank, and a margin for a busy machine.
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
  close(open(stop.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  for (ChildProcess& rank : ranks) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
}

TEST_F(StrategiesTest, OneDaemonServesConcurrentJobs) {
  const std::map<std::string, std::string> settings = {{"WANDB_BASE_URL", wandb_.url()},
                                                       {"WANDB_API_KEY", std::string(40, 'k')}};
  std::vector<ChildProcess> ranks;
  for (const char* job : {"one", "two"}) {
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(
          nodes_[0].StartRank(job, rank, rank, 2, 2, {std::to_string(kStrategyRows)}, settings));
    }
  }
  for (ChildProcess& rank : ranks) ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(Complete({"one", "two"}));
  EXPECT_THAT(wandb_.errors(), IsEmpty());
  ExpectRowsOfRank(wandb_.run("one"), 0);
  ExpectRowsOfRank(wandb_.run("two"), 0);
}

// Neither the first rank of the node nor the number of its ranks is known.
TEST(RunIdTest, RankReceivesIdAfterPrimaryChoice) {
  Node node({"--step-wait", "100ms"});
  node.Start();
  ChildProcess::Options options;
  options.environment = node.RankEnvironment("job", 3, 1, 4, 2);
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"}) {
    options.environment[name] = "";
  }
  options.environment["RANKLOG_LOG_STRATEGY"] = "node";
  const Finished rank = RunToEnd({TELLING_RANK, "10", "job-3"}, options);
  EXPECT_EQ(rank.code, 0) << rank.output;
}

}  // namespace
}  // namespace ranklog::testing
