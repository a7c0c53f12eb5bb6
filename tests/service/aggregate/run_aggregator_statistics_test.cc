// The statistics over ranks that are added to a row.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/service/aggregate/run_aggregator_fixture.h"

namespace ranklog::aggregate {
namespace {

using ::testing::ElementsAre;

TEST_F(RunAggregatorTest, OtherRanksCountOnlyWhereThePrimaryHasARow) {
  StartTwo();
  for (int step = 0; step < 10; ++step) Log(kOther, step, step);
  Log(kPrimary, 0, 0);
  Log(kPrimary, 5, 0);
  Log(kPrimary, 9, 0);
  EXPECT_THAT(Steps(Advance()), ElementsAre(0, 5));
  EXPECT_EQ(stored_.rows[1]["rank_max/loss"], 5);
  // Rows of steps 6 to 8 are used with the next row of the run, or with its end.
  EXPECT_EQ(stored_.consumed[kOther].seq, 6u);
  for (int64_t stream : {kPrimary, kOther}) aggregator_->EndStream(stream);
  EXPECT_THAT(Steps(Advance()), ElementsAre(9));
  EXPECT_EQ(stored_.consumed[kOther].seq, 10u);
  EXPECT_EQ(late(kOther), 0u);
}

// The daemon learns of a thread or a forked child of rank 0 only when its ring attaches.
TEST_F(RunAggregatorTest, LatePrimaryStepCountsPartsAsLate) {
  StartTwo();
  for (int step = 0; step < 5; ++step) Log(kOther, step, step);
  Log(kPrimary, 0, 0);
  Log(kPrimary, 4, 0);
  EXPECT_THAT(Steps(Advance()), ElementsAre(0));
  EXPECT_EQ(stored_.consumed[kOther].seq, 1u);  // a restarted daemon reads the rest again
  Join(3, 0, true);
  Log(3, 2, 7);
  Log(3, 4, 7);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(2));
  EXPECT_THAT(Keys(rows[0]), ElementsAre("loss"));
  EXPECT_EQ(late(kOther), 1u);
  EXPECT_EQ(stored_.consumed[kOther].seq, 3u);
  for (int64_t stream : {kPrimary, kOther, int64_t{3}}) aggregator_->EndStream(stream);
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 7);
  EXPECT_EQ(late(kOther), 1u);
  EXPECT_EQ(stored_.consumed[kOther].seq, 5u);
}

TEST_F(RunAggregatorTest, AStepThatARankLogsAgainAfterARestartIsNotLate) {
  StartTwo();
  Log(kPrimary, 0, 0);
  for (int step = 0; step < 3; ++step) Log(kOther, step, step);
  aggregator_->EndStream(kPrimary);
  EXPECT_THAT(Steps(Advance()), ElementsAre(0));
  aggregator_->EndStream(kOther);
  Join(3, 0, true);
  Join(4, 1, false);
  for (int step = 1; step < 4; ++step) {
    Log(3, step, 10);
    Log(4, step, 20);
  }
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1, 2));
  EXPECT_EQ(rows[0]["rank_max/loss"], 20);
  EXPECT_EQ(late(kOther) + late(4), 0u);
}

TEST_F(RunAggregatorTest, SeveralStreamsOfARankAreOneRankInTheStatistics) {
  StartTwo();
  Join(3, 1, false);
  Log(kPrimary, 1, 1);
  Log(kOther, 1, 100);
  Log(3, 1, 3);
  for (int64_t stream : {kPrimary, kOther, int64_t{3}}) aggregator_->EndStream(stream);
  EXPECT_EQ(Advance().at(0)["rank_mean/loss"], 2);
}

TEST_F(RunAggregatorTest, StatisticsNeedTwoRanksButNotThePrimary) {
  StartTwo();
  Join(3, 2, false);
  Log(kPrimary, {{.step = 1, .shape = 2, .values = {0.5, 1}}});
  Log(kOther, {{.step = 1, .shape = 3, .values = {10}}});
  Log(3, {{.step = 1, .shape = 3, .values = {20}}});
  for (int64_t stream : {kPrimary, kOther, int64_t{3}}) aggregator_->EndStream(stream);
  const RunRow row = Advance().at(0);
  EXPECT_FALSE(row.Has("rank_mean/lr"));
  EXPECT_FALSE(row.Has("acc"));
  EXPECT_EQ(row["rank_mean/acc"], 15);
  EXPECT_EQ(row["rank_argmax/acc"], 2);
}

TEST_F(RunAggregatorTest, NaNOfOneRankIsLeftOutOfTheStatistics) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  StartTwo();
  Log(kPrimary, {{.step = 1, .values = {nan}}, {.step = 2, .values = {nan}}});
  Log(kOther, {{.step = 1, .values = {4}}, {.step = 2, .values = {nan}}});
  for (int64_t stream : {kPrimary, kOther}) aggregator_->EndStream(stream);
  const std::vector<RunRow> rows = Advance();
  EXPECT_TRUE(std::isnan(rows.at(0)["loss"]));
  EXPECT_EQ(rows[0]["rank_mean/loss"], 4);
  EXPECT_TRUE(rows.at(1).Has("rank_argmax/loss"));
  EXPECT_TRUE(std::isnan(rows[1]["rank_argmax/loss"]));
}

TEST_F(RunAggregatorTest, StatisticsAreThoseAskedFor) {
  StartTwo({.rank_statistics = {"argmin", "max"}});
  Log(kPrimary, 1, 5);
  Log(kOther, 1, 3);
  for (int64_t stream : {kPrimary, kOther}) aggregator_->EndStream(stream);
  const RunRow row = Advance().at(0);
  EXPECT_THAT(Keys(row), ElementsAre("loss", "rank_max/loss", "rank_argmin/loss"));
  EXPECT_EQ(row["rank_argmin/loss"], 1);
}

TEST_F(RunAggregatorTest, WithoutStatisticsNobodyWaitsForOtherRanks) {
  StartTwo({.rank_statistics = {"none"}});
  Log(kOther, 1, 3);
  Log(kPrimary, 1, 5);
  Log(kPrimary, 2, 5);
  EXPECT_THAT(Keys(Advance().at(0)), ElementsAre("loss"));
  EXPECT_EQ(stored_.consumed[kOther].seq, 1u);
}

TEST_F(RunAggregatorTest, PrimarysOwnMetricNameWins) {
  StartTwo({.rank_statistics = {"mean"}});
  aggregator_->DefineShape(kPrimary, 4, {"loss", "rank_mean/loss"});
  Log(kPrimary, {{.step = 1, .shape = 4, .values = {1, 42}}});
  Log(kOther, 1, 3);
  for (int64_t stream : {kPrimary, kOther}) aggregator_->EndStream(stream);
  const RunRow row = Advance().at(0);
  EXPECT_THAT(Keys(row), ElementsAre("loss", "rank_mean/loss"));
  EXPECT_EQ(row["rank_mean/loss"], 42);
}

}  // namespace
}  // namespace ranklog::aggregate
