#include "service/aggregate/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ranklog::aggregate {
namespace {

using model::LogStrategy;

// Two nodes with two ranks each.
model::Session SessionOf(LogStrategy strategy, uint32_t rank) {
  model::Session session;
  session.stream = {"project", "job", rank, /*incarnation=*/1};
  session.settings.name = "given";
  session.settings.strategy = strategy;
  session.identity.local_rank = rank % 2;
  session.identity.node_rank = rank / 2;
  session.identity.world_size = 4;
  session.identity.local_world_size = 2;
  return session;
}

model::RunAssignment Expected(const std::string& run_id, const std::string& name,
                              uint32_t primary_rank, bool primary, bool local_only) {
  model::RunAssignment assignment;
  assignment.run_id = run_id;
  assignment.name = name;
  assignment.primary_rank = primary_rank;
  assignment.primary = primary;
  assignment.local_only = local_only;
  return assignment;
}

TEST(StrategyTest, MainMakesOneRunOfTheJobAndKeepsOtherNodesPartsThere) {
  EXPECT_EQ(Assign(SessionOf(LogStrategy::kMain, 0)), Expected("job", "given", 0, true, false));
  EXPECT_EQ(Assign(SessionOf(LogStrategy::kMain, 1)), Expected("job", "given", 0, false, false));
  EXPECT_EQ(Assign(SessionOf(LogStrategy::kMain, 2)), Expected("job-2", "given", 2, true, true));
  EXPECT_EQ(Assign(SessionOf(LogStrategy::kMain, 3)), Expected("job-2", "given", 2, false, true));
}

TEST(StrategyTest, NodeMakesARunPerNodeNamedAfterItsFirstRank) {
  EXPECT_EQ(Assign(SessionOf(LogStrategy::kNode, 0)), Expected("job-0", "rank-0", 0, true, false));
  EXPECT_EQ(Assign(SessionOf(LogStrategy::kNode, 1)), Expected("job-0", "rank-0", 0, false, false));
  EXPECT_EQ(Assign(SessionOf(LogStrategy::kNode, 2)), Expected("job-2", "rank-2", 2, true, false));
  EXPECT_EQ(Assign(SessionOf(LogStrategy::kNode, 3)), Expected("job-2", "rank-2", 2, false, false));
}

TEST(StrategyTest, AllMakesARunPerRank) {
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(Assign(SessionOf(LogStrategy::kAll, rank)),
              Expected(absl::StrCat("job-", rank), absl::StrCat("rank-", rank), rank, true, false));
  }
}

TEST(StrategyTest, ALocalRankAboveTheRankIsNotBelieved) {
  model::Session session = SessionOf(LogStrategy::kNode, 1);
  session.identity.local_rank = 3;
  EXPECT_EQ(Assign(session), Expected("job-1", "rank-1", 1, true, false));
}

}  // namespace
}  // namespace ranklog::aggregate
