#include "service/aggregate/run_aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/service/aggregate/rows.h"

namespace ranklog::aggregate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kPrimary = 1;  // rank 0's stream
constexpr int64_t kOther = 2;    // rank 1's

std::vector<int64_t> Steps(const std::vector<RunRow>& rows) {
  std::vector<int64_t> steps;
  for (const RunRow& row : rows) steps.push_back(row.step);
  return steps;
}

std::vector<std::string> Keys(const RunRow& row) {
  std::vector<std::string> keys;
  for (const auto& number : row.numbers) keys.push_back(number.first);
  return keys;
}

class RunAggregatorTest : public ::testing::Test {
 protected:
  void Start(RunAggregator::Options options = {}) {
    aggregator_ = std::make_unique<RunAggregator>(stored_.run, stored_.shapes, options);
  }
  void Join(int64_t id, uint32_t rank, bool primary) {
    streams_[id] = StreamOf(id, rank, primary);
    aggregator_->AddStream(streams_[id]);
    aggregator_->DefineShape(id, 1, {"loss"});
    aggregator_->DefineShape(id, 2, {"lr", "loss"});
    aggregator_->DefineShape(id, 3, {"acc"});
  }
  // Ranks 0 and 1.
  void StartTwo(RunAggregator::Options options = {}) {
    Start(options);
    Join(kPrimary, 0, true);
    Join(kOther, 1, false);
  }
  void Log(int64_t stream, const std::vector<RankRow>& rows) {
    aggregator_->AddRows(stream, BatchOf(next_seq_[stream] + 1, rows));
    next_seq_[stream] += rows.size();
  }
  void Log(int64_t stream, int64_t step, double loss) {
    Log(stream, {{.step = step, .values = {loss}}});
  }
  // Rank 1 of the node has not attached.
  void LogTwoStepsOfRankZeroOfTwo() {
    Start({.step_wait = absl::Seconds(30)});
    model::Stream primary = StreamOf(kPrimary, 0, true);
    primary.identity.local_world_size = 2;
    aggregator_->AddStream(primary);
    aggregator_->DefineShape(kPrimary, 1, {"loss"});
    Log(kPrimary, 1, 1);
    Log(kPrimary, 2, 1);
    EXPECT_THAT(Advance(), IsEmpty());
  }
  // Advances, and returns the rows made.
  std::vector<RunRow> Advance() {
    const size_t before = stored_.rows.size();
    EXPECT_TRUE(stored_.Store(aggregator_->Advance(now_)));
    return {stored_.rows.begin() + static_cast<ptrdiff_t>(before), stored_.rows.end()};
  }
  uint64_t late(int64_t stream) { return stored_.consumed[stream].late_rows; }

  StoredRun stored_;
  std::unique_ptr<RunAggregator> aggregator_;
  std::map<int64_t, model::Stream> streams_;
  std::map<int64_t, uint64_t> next_seq_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(RunAggregatorTest, AStepClosesWhenEveryRankHasPassedIt) {
  StartTwo();
  Log(kPrimary, 1, 1.0);
  Log(kOther, 1, 3.0);
  EXPECT_THAT(Advance(), IsEmpty());
  Log(kPrimary, 2, 1.0);
  EXPECT_THAT(Advance(), IsEmpty());
  Log(kOther, 2, 1.0);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1));
  EXPECT_THAT(Keys(rows[0]), ElementsAre("loss", "rank_mean/loss", "rank_min/loss", "rank_max/loss",
                                         "rank_std/loss", "rank_argmax/loss"));
  EXPECT_EQ(rows[0]["loss"], 1.0);
  EXPECT_EQ(rows[0]["rank_mean/loss"], 2.0);
  EXPECT_EQ(rows[0]["rank_min/loss"], 1.0);
  EXPECT_EQ(rows[0]["rank_max/loss"], 3.0);
  EXPECT_EQ(rows[0]["rank_std/loss"], 1.0);
  EXPECT_EQ(rows[0]["rank_argmax/loss"], 1.0);
}

TEST_F(RunAggregatorTest, ARowThatCommitsPassesItsStepAtOnce) {
  StartTwo();
  Log(kPrimary, {{.step = 0, .values = {1}, .commits = true}});
  EXPECT_THAT(Advance(), IsEmpty());
  Log(kOther, {{.step = 0, .values = {2}, .commits = true}});
  EXPECT_THAT(Steps(Advance()), ElementsAre(0));
}

TEST_F(RunAggregatorTest, ProgressPassesASilentRanksSteps) {
  StartTwo();
  Log(kPrimary, 1, 1);
  Log(kPrimary, 2, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  aggregator_->SetProgress(kOther, 1);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1));
  EXPECT_THAT(Keys(rows[0]), ElementsAre("loss"));
  aggregator_->SetProgress(kOther, 9);
  EXPECT_THAT(Advance(), IsEmpty());
  aggregator_->SetProgress(kPrimary, 2);
  EXPECT_THAT(Steps(Advance()), ElementsAre(2));
}

TEST_F(RunAggregatorTest, AStreamThatEndedHoldsNothingBack) {
  StartTwo();
  Log(kPrimary, 1, 1);
  Log(kOther, 1, 2);
  aggregator_->EndStream(kOther);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_FALSE(aggregator_->all_streams_ended());
  aggregator_->EndStream(kPrimary);
  EXPECT_FALSE(aggregator_->all_streams_ended());
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1));
  EXPECT_EQ(rows[0]["rank_max/loss"], 2);
  EXPECT_TRUE(aggregator_->all_streams_ended());
}

// Rank 0 may be done with its first steps before rank 1 has started.
TEST_F(RunAggregatorTest, WaitsForARankOfTheNodeThatHasNotAttached) {
  LogTwoStepsOfRankZeroOfTwo();
  Join(kOther, 1, false);
  Log(kOther, 1, 3);
  Log(kOther, 2, 3);
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 3);
}

TEST_F(RunAggregatorTest, WaitsForARankThatNeverAttachesOnlyForTheStepWait) {
  LogTwoStepsOfRankZeroOfTwo();
  now_ += absl::Seconds(30);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1));
}

TEST_F(RunAggregatorTest, WaitsForOtherRanksOnlyForTheStepWait) {
  StartTwo({.step_wait = absl::Seconds(30)});
  Log(kOther, 1, 2);
  Log(kPrimary, 1, 1);
  Log(kPrimary, 2, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(aggregator_->NextDeadline(), now_ + absl::Seconds(30));
  now_ += absl::Seconds(29);
  EXPECT_THAT(Advance(), IsEmpty());
  now_ += absl::Seconds(1);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1));
  EXPECT_EQ(rows[0]["rank_max/loss"], 2);  // what had come by then is in
  EXPECT_EQ(aggregator_->NextDeadline(), absl::InfiniteFuture());

  // It is not waited for again while it is silent; what it brings too late is counted.
  Log(kPrimary, 3, 1);
  EXPECT_THAT(Steps(Advance()), ElementsAre(2));
  Log(kOther, 2, 5);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(late(kOther), 1u);

  // Once it has caught up it is.
  Log(kOther, 3, 5);
  Log(kPrimary, 4, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  Log(kOther, 4, 5);
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 5);
}

TEST_F(RunAggregatorTest, WaitsForThePrimaryHoweverLong) {
  StartTwo();
  Log(kPrimary, 1, 1);
  for (int step = 1; step < 100; ++step) Log(kOther, step, 2);
  EXPECT_THAT(Advance(), IsEmpty());
  now_ += absl::Hours(10);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(aggregator_->NextDeadline(), absl::InfiniteFuture());
  Log(kPrimary, 2, 1);
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 2);
}

TEST_F(RunAggregatorTest, NothingClosesBeforeAPrimaryJoins) {
  Start();
  Join(kOther, 1, false);
  for (int step = 0; step < 5; ++step) Log(kOther, step, step);
  aggregator_->EndStream(kOther);
  EXPECT_THAT(Advance(), IsEmpty());
  now_ += absl::Hours(1);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_TRUE(aggregator_->all_streams_ended());
  EXPECT_TRUE(stored_.consumed.empty());

  Join(kPrimary, 0, true);
  EXPECT_FALSE(aggregator_->all_streams_ended());
  for (int step = 0; step < 5; ++step) Log(kPrimary, step, 10);
  aggregator_->EndStream(kPrimary);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(0, 1, 2, 3, 4));
  for (int step = 0; step < 5; ++step) EXPECT_EQ(rows[step]["rank_min/loss"], step);
  EXPECT_EQ(late(kOther) + late(kPrimary), 0u);
}

TEST_F(RunAggregatorTest, CloseAllUsesUpWhatWaitsForAPrimaryThatNeverCame) {
  Start();
  Join(kOther, 1, false);
  Log(kOther, 7, 1);
  Log(kOther, 8, 1);
  aggregator_->EndStream(kOther);
  aggregator_->CloseAll();
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(stored_.consumed[kOther].seq, 2u);
  EXPECT_EQ(late(kOther), 0u);
  EXPECT_EQ(aggregator_->open_values(), 0u);
  // A primary that comes all the same loses nothing.
  Join(kPrimary, 0, true);
  Log(kPrimary, 3, 1);
  aggregator_->EndStream(kPrimary);
  EXPECT_THAT(Steps(Advance()), ElementsAre(3));
}

TEST_F(RunAggregatorTest, OtherRanksCountOnlyWhereThePrimaryHasARow) {
  StartTwo();
  for (int step = 0; step < 10; ++step) Log(kOther, step, step);
  Log(kPrimary, 0, 0);
  Log(kPrimary, 5, 0);
  Log(kPrimary, 9, 0);
  EXPECT_THAT(Steps(Advance()), ElementsAre(0, 5));
  EXPECT_EQ(stored_.rows[1]["rank_max/loss"], 5);
  EXPECT_EQ(stored_.consumed[kOther].seq, 9u);
  EXPECT_EQ(late(kOther), 0u);
}

TEST_F(RunAggregatorTest, MergesWhatThePrimaryLoggedAtOneStep) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .values = {1}, .time_us = 10},
                 {.step = 1, .shape = 3, .values = {7}, .time_us = 20},
                 {.step = 1, .shape = 2, .values = {0.1, 2}, .time_us = 30},
                 {.step = 2, .values = {9}, .time_us = 40}});
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(Keys(rows[0]), ElementsAre("loss", "acc", "lr"));
  EXPECT_EQ(rows[0]["loss"], 2);
  EXPECT_EQ(rows[0].time_us, 30);
  EXPECT_EQ(stored_.consumed[kPrimary].seq, 3u);
}

TEST_F(RunAggregatorTest, MergesThePrimarysStreamsByStep) {
  StartTwo();
  Join(3, 0, true);  // another thread of rank 0
  Log(3, {{.step = 1, .shape = 3, .values = {7}}});
  Log(kPrimary, 1, 1);
  Log(kPrimary, 5, 1);
  Log(kOther, 5, 1);
  EXPECT_THAT(Advance(), IsEmpty());  // the thread has not passed step 1
  Log(3, {{.step = 2, .shape = 2, .values = {3, 4}}});
  Log(3, 5, 0);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1, 2));
  EXPECT_THAT(Keys(rows[0]), ElementsAre("loss", "acc"));
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

TEST_F(RunAggregatorTest, ANameThatThePrimaryUsesIsLeftToIt) {
  StartTwo({.rank_statistics = {"mean"}});
  aggregator_->DefineShape(kPrimary, 4, {"loss", "rank_mean/loss"});
  Log(kPrimary, {{.step = 1, .shape = 4, .values = {1, 42}}});
  Log(kOther, 1, 3);
  for (int64_t stream : {kPrimary, kOther}) aggregator_->EndStream(stream);
  const RunRow row = Advance().at(0);
  EXPECT_THAT(Keys(row), ElementsAre("loss", "rank_mean/loss"));
  EXPECT_EQ(row["rank_mean/loss"], 42);
}

TEST_F(RunAggregatorTest, CarriesThePrimarysTextsAndNotTheOthers) {
  StartTwo();
  Log(kPrimary, {{.step = 1, .shape = 0, .texts = {{"sample", "a"}, {"note", "b"}}},
                 {.step = 1, .values = {1}, .texts = {{"sample", "c"}}},
                 {.step = 2, .shape = 0, .texts = {{"sample", "d"}}}});
  Log(kOther, {{.step = 1, .values = {1}, .texts = {{"sample", "other"}}}});
  for (int64_t stream : {kPrimary, kOther}) aggregator_->EndStream(stream);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_THAT(rows[0].texts, ElementsAre(std::pair<const std::string, std::string>("note", "b"),
                                         std::pair<const std::string, std::string>("sample", "c")));
  EXPECT_THAT(rows[1].numbers, IsEmpty());
}

TEST_F(RunAggregatorTest, BetweenATextAndANumberOfOneKeyTheLaterWins) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .shape = 2, .values = {0.5, 1}},
                 {.step = 1, .shape = 0, .texts = {{"loss", "diverged"}}},
                 {.step = 2, .shape = 0, .texts = {{"loss", "diverged"}}},
                 {.step = 2, .shape = 2, .values = {0.5, 2}}});
  aggregator_->EndStream(kPrimary);
  const std::vector<RunRow> rows = Advance();
  EXPECT_THAT(Keys(rows.at(0)), ElementsAre("lr"));
  EXPECT_EQ(rows[0].texts.at("loss"), "diverged");
  EXPECT_EQ(rows.at(1)["loss"], 2);
  EXPECT_THAT(rows[1].texts, IsEmpty());
}

TEST_F(RunAggregatorTest, APrimaryThatBeginsAnewBehindIsLateUpToTheLastRow) {
  StartTwo();
  for (int step = 0; step < 6; ++step) Log(kPrimary, step, step);
  aggregator_->EndStream(kPrimary);
  for (int step = 0; step < 10; ++step) Log(kOther, step, step);
  EXPECT_THAT(Steps(Advance()), ElementsAre(0, 1, 2, 3, 4, 5));

  Join(3, 0, true);  // resumed from a checkpoint at step 4
  for (int step = 4; step < 9; ++step) Log(3, step, 100 + step);
  aggregator_->EndStream(3);
  EXPECT_THAT(Steps(Advance()), ElementsAre(6, 7, 8));
  EXPECT_EQ(late(3), 2u);
  EXPECT_EQ(stored_.consumed[3].seq, 5u);
}

TEST_F(RunAggregatorTest, OthersAreWaitedForAgainAfterThePrimaryBeganAnew) {
  StartTwo();
  Log(kPrimary, 1, 1);
  aggregator_->EndStream(kPrimary);
  Log(kOther, 1, 1);
  now_ += absl::Seconds(100);
  Advance();
  now_ += absl::Seconds(100);
  Join(3, 0, true);
  Log(3, {{.step = 2, .values = {1}, .commits = true}});
  Log(3, {{.step = 3, .values = {1}, .commits = true}});
  Log(kOther, 2, 1);
  Advance();
  EXPECT_EQ(aggregator_->NextDeadline(), now_ + absl::Seconds(30));
}

TEST_F(RunAggregatorTest, ARowBelowTheOneBeforeItIsLate) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, 5, 1);
  Log(kPrimary, 3, 2);
  Log(kPrimary, 6, 3);
  aggregator_->EndStream(kPrimary);
  EXPECT_THAT(Steps(Advance()), ElementsAre(5, 6));
  EXPECT_EQ(stored_.rows[0]["loss"], 1);
  EXPECT_EQ(late(kPrimary), 1u);
  EXPECT_EQ(stored_.consumed[kPrimary].seq, 3u);
}

TEST_F(RunAggregatorTest, RowsOfAnUnknownShapeAreLeftOutAndCounted) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .shape = 77, .values = {1}}, {.step = 1, .values = {1, 2}}});
  aggregator_->EndStream(kPrimary);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(late(kPrimary), 2u);
}

TEST_F(RunAggregatorTest, WhatAStreamIsToldToHaveCountsOnceItsRowsAreHere) {
  StartTwo();
  model::Stream ended = streams_[kPrimary];
  ended.durable_seq = 2;
  ended.passed_step = 50;
  ended.state = model::StreamState::kFinished;
  aggregator_->AddStream(ended);
  aggregator_->EndStream(kOther);
  Log(kPrimary, 1, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_FALSE(aggregator_->all_streams_ended());
  Log(kPrimary, 2, 1);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1, 2));
  EXPECT_TRUE(aggregator_->all_streams_ended());
}

TEST_F(RunAggregatorTest, RowsSeenBeforeAreSkipped) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, {{.step = 1, .values = {1}, .commits = true}});
  EXPECT_THAT(Advance(), SizeIs(1));
  aggregator_->AddRows(kPrimary, BatchOf(1, {{.step = 1, .values = {1}, .commits = true},
                                             {.step = 2, .values = {1}, .commits = true}}));
  EXPECT_THAT(Steps(Advance()), ElementsAre(2));
  EXPECT_EQ(late(kPrimary), 0u);
}

TEST_F(RunAggregatorTest, TheLargestStepIsAStepLikeAnyOther) {
  Start();
  Join(kPrimary, 0, true);
  Log(kPrimary, std::numeric_limits<int64_t>::max(), 1);
  aggregator_->EndStream(kPrimary);
  EXPECT_THAT(Advance(), SizeIs(1));
}

TEST_F(RunAggregatorTest, TellsWhoHoldsBackTheOthers) {
  StartTwo();
  EXPECT_TRUE(aggregator_->holds_back(kPrimary));
  EXPECT_TRUE(aggregator_->holds_back(kOther));
  for (int step = 0; step < 5; ++step) Log(kOther, step, 1);
  EXPECT_TRUE(aggregator_->holds_back(kPrimary));
  EXPECT_FALSE(aggregator_->holds_back(kOther));
  EXPECT_GE(aggregator_->open_values(), 5u);
}

TEST_F(RunAggregatorTest, BatchesAreOfBoundedSizeAndGoOnWhereTheRunWas) {
  stored_.run.rows = 1000;
  stored_.shapes = {{}, {"loss"}};
  Start();
  Join(kPrimary, 0, true);
  std::vector<RankRow> rows;
  for (int step = 0; step < 100000; ++step) rows.push_back({.step = step, .values = {1}});
  Log(kPrimary, rows);
  aggregator_->EndStream(kPrimary);
  const Aggregated result = aggregator_->Advance(now_);
  EXPECT_THAT(result.shapes, IsEmpty());  // the stored one serves
  ASSERT_THAT(result.batches, SizeIs(3));
  EXPECT_EQ(result.batches[0].first, 1000u);
  EXPECT_EQ(result.batches[1].first, result.batches[0].last + 1);
  EXPECT_TRUE(stored_.Store(result));
}

}  // namespace
}  // namespace ranklog::aggregate
