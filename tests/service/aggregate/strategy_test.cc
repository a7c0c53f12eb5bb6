#include "service/aggregate/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ranklog::aggregate {
namespace {

using model::JobRun;
using model::LogStrategy;
using model::RunAssignment;
using ::testing::ElementsAre;

// A minimal store for the strategy. Attaches ranks to the runs that it assigns.
class StrategyTest : public ::testing::Test {
 protected:
  // `local_ranks` 0: the launcher gives neither the number of local ranks nor this one's local
  // rank.
  RunAssignment Attach(uint32_t rank, uint32_t local_rank, uint32_t local_ranks,
                       const std::string& node = "node") {
    model::Session session;
    session.stream = {"project", "job", rank, ++incarnation_};
    session.settings.name = "given";
    session.settings.strategy = strategy_;
    session.settings.name_pattern = name_pattern_;
    session.identity.local_rank = local_rank;
    session.identity.world_size = 8;
    session.identity.local_world_size = local_ranks;
    session.identity.node = node;
    session.launch.id = launch_;
    std::vector<JobRun> view;
    for (const Kept& run : runs_) view.push_back(ViewOf(run, session));
    const RunAssignment assignment = Assign(session, view);
    Kept* kept = nullptr;
    for (Kept& run : runs_) {
      if (assignment.run == 0 ? run.run_id == assignment.run_id : run.id == assignment.run) {
        kept = &run;
      }
    }
    if (kept == nullptr) {
      kept = &runs_.emplace_back();
      kept->id = static_cast<int64_t>(runs_.size());
    }
    kept->run_id = assignment.run_id;
    kept->primary_rank = assignment.primary_rank;
    kept->local_only = assignment.local_only;
    kept->primary_chosen = assignment.primary_chosen;
    kept->sessions.push_back(session);
    return assignment;
  }
  void EndAll() {
    for (Kept& run : runs_) run.live = false;
  }
  // Returns "RUN_ID: RANKS", the ranks in the order of their attach.
  std::vector<std::string> Runs() const {
    std::vector<std::string> texts;
    for (const Kept& run : runs_) {
      std::string text = run.run_id + ":";
      for (const model::Session& session : run.sessions) {
        absl::StrAppend(&text, " ", session.stream.rank);
      }
      texts.push_back(text);
    }
    return texts;
  }

  LogStrategy strategy_ = LogStrategy::kNode;
  std::string name_pattern_;
  std::string launch_ = "first";

 private:
  struct Kept {
    int64_t id = 0;
    std::string run_id;
    uint32_t primary_rank = 0;
    bool local_only = false;
    bool primary_chosen = true;
    bool live = true;
    std::vector<model::Session> sessions;
  };
  static JobRun ViewOf(const Kept& run, const model::Session& session) {
    JobRun view{.id = run.id,
                .run_id = run.run_id,
                .primary_rank = run.primary_rank,
                .local_only = run.local_only,
                .primary_chosen = run.primary_chosen};
    std::vector<uint32_t> ranks;
    for (const model::Session& other : run.sessions) {
      if (other.identity.node != session.identity.node) continue;
      ranks.push_back(other.stream.rank);
      view.live = run.live;
      const bool same = other.stream.rank == session.stream.rank;
      view.has_rank |= same;
      view.of_start |= other.launch.id == session.launch.id;
      view.has_place |= same && other.identity.local_rank == session.identity.local_rank &&
                        other.identity.local_world_size == session.identity.local_world_size;
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    view.ranks = static_cast<uint32_t>(ranks.size());
    if (!ranks.empty()) view.lowest_rank = ranks.front();
    return view;
  }

  std::vector<Kept> runs_;
  uint64_t incarnation_ = 0;
};

RunAssignment Expected(const std::string& run_id, const std::string& name, uint32_t primary_rank,
                       bool primary, bool local_only) {
  return {run_id, name, primary_rank, primary, local_only};
}

RunAssignment WithoutRun(RunAssignment assignment) {
  assignment.run = 0;
  return assignment;
}

TEST_F(StrategyTest, MainMakesOneRunPerJob) {
  strategy_ = LogStrategy::kMain;
  EXPECT_EQ(Attach(0, 0, 2), Expected("job", "given", 0, true, false));
  EXPECT_EQ(WithoutRun(Attach(1, 1, 2)), Expected("job", "given", 0, false, false));
}

TEST_F(StrategyTest, MainKeepsOtherNodesPartLocal) {
  strategy_ = LogStrategy::kMain;
  EXPECT_EQ(Attach(2, 0, 2), Expected("job-2", "given", 2, true, true));
  EXPECT_EQ(WithoutRun(Attach(3, 1, 2)), Expected("job-2", "given", 2, false, true));
}

TEST_F(StrategyTest, NodeNamesRunAfterFirstRank) {
  EXPECT_EQ(Attach(2, 0, 2), Expected("job-2", "rank-2", 2, true, false));
  EXPECT_EQ(WithoutRun(Attach(3, 1, 2)), Expected("job-2", "rank-2", 2, false, false));
}

TEST_F(StrategyTest, AllIsARunPerRank) {
  strategy_ = LogStrategy::kAll;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(Attach(rank, rank % 2, 2),
              Expected(absl::StrCat("job-", rank), absl::StrCat("rank-", rank), rank, true, false));
  }
}

TEST_F(StrategyTest, NamePatternNamesRunsOfNodesAndRanks) {
  name_pattern_ = "{name}/{id} {rank} {local_rank} {node} {node_rank} {other}";
  EXPECT_EQ(Attach(2, 0, 2), Expected("job-2", "given/job 2 0 node 0 {other}", 2, true, false));
  EXPECT_EQ(WithoutRun(Attach(3, 1, 2)).name, "given/job 2 0 node 0 {other}");
  strategy_ = LogStrategy::kAll;
  EXPECT_EQ(Attach(5, 1, 2).name, "given/job 5 1 node 0 {other}");
  name_pattern_ = std::string(2000, 'x');
  EXPECT_EQ(Attach(6, 1, 2).name, "rank-6") << "trackers refuse such a name";
  strategy_ = LogStrategy::kMain;
  name_pattern_ = "x";
  EXPECT_EQ(Attach(0, 0, 2).name, "given") << "a main run has the job's name";
}

TEST_F(StrategyTest, CyclicRanksShareTheirNodesRun) {
  Attach(1, 0, 4);
  Attach(3, 1, 4);
  Attach(7, 3, 4);
  Attach(5, 2, 4);
  EXPECT_THAT(Runs(), ElementsAre("job-1: 1 3 7 5"));
}

TEST_F(StrategyTest, EarlyRanksWaitForFirstRank) {
  const RunAssignment waiting = Attach(7, 3, 4);
  EXPECT_FALSE(waiting.primary_chosen);
  EXPECT_FALSE(waiting.primary);
  EXPECT_TRUE(waiting.local_only);
  Attach(3, 1, 4);
  EXPECT_THAT(Runs(), ElementsAre("job-7-pending: 7 3"));
  EXPECT_TRUE(Attach(1, 0, 4).primary);
  Attach(5, 2, 4);
  EXPECT_THAT(Runs(), ElementsAre("job-1: 7 3 1 5"));
}

TEST_F(StrategyTest, RankZeroIsAlwaysFirst) {
  strategy_ = LogStrategy::kMain;
  Attach(4, 0, 0);
  Attach(2, 0, 0);
  EXPECT_EQ(WithoutRun(Attach(0, 0, 0)), Expected("job", "given", 0, true, false));
  EXPECT_EQ(WithoutRun(Attach(6, 0, 0)), Expected("job", "given", 0, false, false));
  EXPECT_THAT(Runs(), ElementsAre("job: 4 2 0 6"));
}

// A launcher that counts local ranks from 1.
TEST_F(StrategyTest, CompleteNodePicksLowestRank) {
  Attach(7, 1, 2);
  EXPECT_EQ(WithoutRun(Attach(5, 1, 2)), Expected("job-5", "rank-5", 5, true, false));
  EXPECT_THAT(Runs(), ElementsAre("job-5: 7 5"));
}

TEST_F(StrategyTest, DaemonServesSeveralNodeNames) {
  Attach(3, 1, 2, "pod-b");
  Attach(0, 0, 2, "pod-a");
  Attach(2, 0, 2, "pod-b");
  Attach(1, 1, 2, "pod-a");
  EXPECT_THAT(Runs(), ElementsAre("job-2: 3 2", "job-0: 0 1"));
}

TEST_F(StrategyTest, RestartedJobContinuesItsRuns) {
  for (uint32_t local : {0, 1, 2, 3}) Attach(2 * local + 1, local, 4);
  EndAll();
  for (uint32_t local : {2, 3, 0, 1}) Attach(2 * local + 1, local, 4);
  EXPECT_THAT(Runs(), ElementsAre("job-1: 1 3 5 7 5 7 1 3"));
}

// For example, they wait for descriptors until others are done.
TEST_F(StrategyTest, LateRankJoinsItsStartsRun) {
  for (uint32_t rank : {0, 1}) Attach(rank, rank, 4);
  EndAll();
  for (uint32_t rank : {2, 3}) Attach(rank, rank, 4);
  EXPECT_THAT(Runs(), ElementsAre("job-0: 0 1 2 3"));
  EndAll();
  launch_ = "second";
  Attach(4, 4, 8);
  EXPECT_THAT(Runs(), ElementsAre("job-0: 0 1 2 3", "job-4-pending: 4"))
      << "it was no part of the start before";
}

// Rank 2 was in the run of rank 0 before. Now it is on its own node with rank 3.
TEST_F(StrategyTest, ChangedLayoutMakesOtherRuns) {
  for (uint32_t rank : {0, 1, 2, 3}) Attach(rank, rank, 4);
  EndAll();
  for (uint32_t rank : {3, 2}) Attach(rank, rank % 2, 2);
  EXPECT_THAT(Runs(), ElementsAre("job-0: 0 1 2 3", "job-2: 3 2"));
}

TEST_F(StrategyTest, RankBelowPrimaryGetsOwnRun) {
  Attach(3, 0, 2);
  Attach(2, 1, 2);
  EXPECT_THAT(Runs(), ElementsAre("job-3: 3", "job-2-pending: 2"));
}

TEST_F(StrategyTest, SecondRingOfWaitingRankWaits) {
  Attach(3, 1, 2);
  Attach(3, 1, 2);
  EXPECT_THAT(Runs(), ElementsAre("job-3-pending: 3 3"));
}

TEST_F(StrategyTest, ChangedStrategyMakesNewRun) {
  strategy_ = LogStrategy::kMain;
  Attach(0, 0, 2);
  Attach(1, 1, 2);
  EndAll();
  strategy_ = LogStrategy::kNode;
  Attach(1, 1, 2);
  Attach(0, 0, 2);
  EXPECT_THAT(Runs(), ElementsAre("job: 0 1", "job-0: 1 0"));
}

}  // namespace
}  // namespace ranklog::aggregate
