// The statistics over ranks that are added to a row.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/aggregate/join/join_plan.h"
#include "tests/service/aggregate/run_aggregator_fixture.h"

namespace ranklog::aggregate {
namespace {

using ::testing::ElementsAre;

TEST_F(RunAggregatorTest, OnlyPrimaryStepsMakeRows) {
  StartTwo();
  for (int step = 0; step < 10; ++step) Log(kOther, step, step);
  Log(kPrimary, 0, 0);
  Log(kPrimary, 5, 0);
  Log(kPrimary, 9, 0);
  EXPECT_THAT(Steps(Advance()), ElementsAre(0, 5));
  EXPECT_EQ(stored_.rows[1]["rank_max/loss"], 5);
  // Rows of steps 6 to 8 are used with the next row of the run, or with its end.
  EXPECT_EQ(stored_.consumed[kOther].seq, 6u);
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  EXPECT_THAT(Steps(Advance()), ElementsAre(9));
  EXPECT_EQ(stored_.consumed[kOther].seq, 10u);
  EXPECT_EQ(late(kOther), 0u);
}

// The daemon learns of a thread or a forked child of rank 0 only when its ring attaches.
TEST_F(RunAggregatorTest, LatePrimaryStepMakesOthersLate) {
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
  for (int64_t stream : {kPrimary, kOther, int64_t{3}}) End(stream);
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 7);
  EXPECT_EQ(late(kOther), 1u);
  EXPECT_EQ(stored_.consumed[kOther].seq, 5u);
}

TEST_F(RunAggregatorTest, RestartedRankReplaysAreNotLate) {
  StartTwo();
  Log(kPrimary, 0, 0);
  for (int step = 0; step < 3; ++step) Log(kOther, step, step);
  End(kPrimary);
  EXPECT_THAT(Steps(Advance()), ElementsAre(0));
  End(kOther);
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

TEST_F(RunAggregatorTest, StreamsOfOneRankCountOnce) {
  StartTwo();
  Join(3, 1, false);
  Log(kPrimary, 1, 1);
  Log(kOther, 1, 100);
  Log(3, 1, 3);
  for (int64_t stream : {kPrimary, kOther, int64_t{3}}) End(stream);
  EXPECT_EQ(Advance().at(0)["rank_mean/loss"], 2);
}

TEST_F(RunAggregatorTest, StatisticsNeedAnyTwoRanks) {
  StartTwo();
  Join(3, 2, false);
  Log(kPrimary, {{.step = 1, .shape = 2, .values = {0.5, 1}}});
  Log(kOther, {{.step = 1, .shape = 3, .values = {10}}});
  Log(3, {{.step = 1, .shape = 3, .values = {20}}});
  for (int64_t stream : {kPrimary, kOther, int64_t{3}}) End(stream);
  const RunRow row = Advance().at(0);
  EXPECT_FALSE(row.Has("rank_mean/lr"));
  EXPECT_FALSE(row.Has("acc"));
  EXPECT_EQ(row["rank_mean/acc"], 15);
  EXPECT_EQ(row["rank_max/acc"], 20);
}

TEST_F(RunAggregatorTest, StatisticsIgnoreNaNOfOneRank) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  StartTwo();
  Log(kPrimary, {{.step = 1, .values = {nan}}, {.step = 2, .values = {nan}}});
  Log(kOther, {{.step = 1, .values = {4}}, {.step = 2, .values = {nan}}});
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  const std::vector<RunRow> rows = Advance();
  EXPECT_TRUE(std::isnan(rows.at(0)["loss"]));
  EXPECT_EQ(rows[0]["rank_mean/loss"], 4);
  EXPECT_TRUE(rows.at(1).Has("rank_max/loss"));
  EXPECT_TRUE(std::isnan(rows[1]["rank_max/loss"]));
}

TEST_F(RunAggregatorTest, DifferingMetricsGetMeanMinMax) {
  StartTwo();
  Log(kPrimary, {{.step = 1, .shape = 2, .values = {0.5, 1}}});
  Log(kOther, {{.step = 1, .shape = 2, .values = {0.5, 3}}});
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  EXPECT_THAT(Keys(Advance().at(0)),
              ElementsAre("lr", "loss", "rank_mean/loss", "rank_min/loss", "rank_max/loss"));
}

TEST_F(RunAggregatorTest, MetricThatDifferedKeepsItsStatistics) {
  StartTwo();
  for (const double other : {5.0, 6.0, 5.0}) {
    Log(kPrimary, streams_[kPrimary].durable_seq++, 5);
    Log(kOther, streams_[kOther].durable_seq++, other);
  }
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  const std::vector<RunRow> rows = Advance();
  EXPECT_FALSE(rows.at(0).Has("rank_mean/loss"));
  EXPECT_EQ(rows.at(1)["rank_max/loss"], 6);
  EXPECT_EQ(rows.at(2)["rank_max/loss"], 5);
}

// The plan of the rows with "lr" was made before "loss" differed.
TEST_F(RunAggregatorTest, DifferenceAppliesToOtherShapes) {
  StartTwo();
  for (int64_t stream : {kPrimary, kOther}) {
    Log(stream, {{.step = 1, .shape = 2, .values = {0.5, 1}},
                 {.step = 2, .shape = 1, .values = {static_cast<double>(stream)}},
                 {.step = 3, .shape = 2, .values = {0.5, 1}}});
    End(stream);
  }
  const std::vector<RunRow> rows = Advance();
  EXPECT_THAT(Keys(rows.at(0)), ElementsAre("lr", "loss"));
  EXPECT_THAT(Keys(rows.at(2)),
              ElementsAre("lr", "loss", "rank_mean/loss", "rank_min/loss", "rank_max/loss"));
}

TEST_F(RunAggregatorTest, RestartedDaemonKnowsWhichMetricsDiffered) {
  StartTwo();
  Log(kPrimary, 1, 5);
  Log(kOther, 1, 6);
  Log(kPrimary, 2, 5);
  Log(kOther, 2, 5);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1));
  next_seq_.clear();
  StartTwo();
  for (int64_t stream : {kPrimary, kOther}) {
    aggregator_->SkipRows(stream, ++next_seq_[stream]);
    Log(stream, 2, 5);
    End(stream);
  }
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 5);
}

TEST_F(RunAggregatorTest, NaNEqualsOnlyNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [one, other, differ] : {std::tuple(nan, nan, false),
                                           {nan, 1, true},
                                           {1, nan, true},
                                           {infinity, infinity, false},
                                           {infinity, -infinity, true},
                                           {0.0, -0.0, false}}) {
    SCOPED_TRACE(::testing::Message() << one << " " << other);
    stored_ = StoredRun();
    next_seq_.clear();
    StartTwo();
    Log(kPrimary, 1, one);
    Log(kOther, 1, other);
    for (int64_t stream : {kPrimary, kOther}) End(stream);
    EXPECT_EQ(Advance().at(0).Has("rank_mean/loss"), differ);
  }
}

// Otherwise a run with many metrics could make as many shapes, each with all of their names.
TEST_F(RunAggregatorTest, ManyChangesEnableAllStatistics) {
  StartTwo();
  std::vector<std::string> keys = {"equal"};
  for (int i = 0; i <= JoinPlanner::kMaxChanges; ++i) keys.push_back(absl::StrCat("metric", i));
  std::vector<double> values(keys.size(), 1);
  for (int64_t stream : {kPrimary, kOther}) aggregator_->DefineShape(stream, 4, keys);
  for (int i = 0; i <= JoinPlanner::kMaxChanges; ++i) {
    Log(kPrimary, {{.step = i, .shape = 4, .values = values}});
    values[static_cast<size_t>(i) + 1] = 2;
    Log(kOther, {{.step = i, .shape = 4, .values = values}});
    values[static_cast<size_t>(i) + 1] = 1;
  }
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  const std::vector<RunRow> rows = Advance();
  EXPECT_FALSE(rows[JoinPlanner::kMaxChanges - 1].Has("rank_mean/equal"));
  EXPECT_TRUE(rows.at(JoinPlanner::kMaxChanges).Has("rank_mean/equal"));
}

TEST_F(RunAggregatorTest, StatisticsAreThoseAskedFor) {
  StartTwo({.statistics = model::RankStatistics({"argmin", "max"})});
  Log(kPrimary, 1, 5);
  Log(kOther, 1, 3);
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  const RunRow row = Advance().at(0);
  EXPECT_THAT(Keys(row), ElementsAre("loss", "rank_max/loss", "rank_argmin/loss"));
  EXPECT_EQ(row["rank_argmin/loss"], 1);
}

TEST_F(RunAggregatorTest, StatisticsFollowEachMetricsRule) {
  StartTwo({.statistics = model::RankStatistics({"std"}, {"lo*=max", "lr=none"})});
  for (int64_t stream : {kPrimary, kOther}) {
    const auto rank = static_cast<double>(stream);
    Log(stream, {{.step = 1, .shape = 2, .values = {rank, rank}},
                 {.step = 1, .shape = 3, .values = {rank}}});
    End(stream);
  }
  EXPECT_THAT(Keys(Advance().at(0)),
              ElementsAre("lr", "loss", "acc", "rank_max/loss", "rank_std/acc"));
}

TEST_F(RunAggregatorTest, WithoutStatisticsStepsCloseImmediately) {
  StartTwo({.statistics = model::RankStatistics({"none"})});
  Log(kOther, 1, 3);
  Log(kPrimary, 1, 5);
  Log(kPrimary, 2, 5);
  EXPECT_THAT(Keys(Advance().at(0)), ElementsAre("loss"));
  EXPECT_EQ(stored_.consumed[kOther].seq, 1u);
}

TEST_F(RunAggregatorTest, PrimarysOwnMetricNameWins) {
  StartTwo({.statistics = model::RankStatistics({"mean"})});
  aggregator_->DefineShape(kPrimary, 4, {"loss", "rank_mean/loss"});
  Log(kPrimary, {{.step = 1, .shape = 4, .values = {1, 42}}});
  Log(kOther, 1, 3);
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  const RunRow row = Advance().at(0);
  EXPECT_THAT(Keys(row), ElementsAre("loss", "rank_mean/loss"));
  EXPECT_EQ(row["rank_mean/loss"], 42);
}

// In the shapes of a restarted run, the primary's own statistics look like the daemon's.
TEST_F(RunAggregatorTest, PrimaryStatisticMakesMetricDiffer) {
  StartTwo();
  aggregator_->DefineShape(kPrimary, 4, {"loss", "rank_mean/loss"});
  Log(kPrimary, {{.step = 1, .shape = 4, .values = {1, 42}}});
  Log(kOther, 1, 1);
  for (int64_t stream : {kPrimary, kOther}) End(stream);
  EXPECT_THAT(Keys(Advance().at(0)),
              ElementsAre("loss", "rank_mean/loss", "rank_min/loss", "rank_max/loss"));
}

}  // namespace
}  // namespace ranklog::aggregate
