// When a step closes: which streams have passed it, for which streams it waits, and how long.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/service/aggregate/run_aggregator_fixture.h"

namespace ranklog::aggregate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(RunAggregatorTest, StepClosesOnceAllRanksPass) {
  StartTwo();
  Log(kPrimary, 1, 1.0);
  Log(kOther, 1, 3.0);
  EXPECT_THAT(Advance(), IsEmpty());
  Log(kPrimary, 2, 1.0);
  EXPECT_THAT(Advance(), IsEmpty());
  Log(kOther, 2, 1.0);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1));
  EXPECT_THAT(Keys(rows[0]),
              ElementsAre("loss", "rank_mean/loss", "rank_min/loss", "rank_max/loss"));
  EXPECT_EQ(rows[0]["loss"], 1.0);
  EXPECT_EQ(rows[0]["rank_mean/loss"], 2.0);
  EXPECT_EQ(rows[0]["rank_min/loss"], 1.0);
  EXPECT_EQ(rows[0]["rank_max/loss"], 3.0);
}

TEST_F(RunAggregatorTest, CommittingRowPassesItsStepImmediately) {
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
  Progress(kOther, 1);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1));
  EXPECT_THAT(Keys(rows[0]), ElementsAre("loss"));
  Progress(kOther, 9);
  EXPECT_THAT(Advance(), IsEmpty());
  Progress(kPrimary, 2);
  EXPECT_THAT(Steps(Advance()), ElementsAre(2));
}

TEST_F(RunAggregatorTest, EndedStreamDelaysNoStep) {
  StartTwo();
  Log(kPrimary, 1, 1);
  Log(kOther, 1, 2);
  End(kOther);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_FALSE(aggregator_->all_streams_ended());
  End(kPrimary);
  EXPECT_FALSE(aggregator_->all_streams_ended());
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(1));
  EXPECT_EQ(rows[0]["rank_max/loss"], 2);
  EXPECT_TRUE(aggregator_->all_streams_ended());
}

// Rank 0 may finish its first steps before rank 1 starts.
TEST_F(RunAggregatorTest, WaitsForUnattachedLocalRank) {
  LogTwoStepsOfRankZeroOfTwo();
  Join(kOther, 1, false);
  Log(kOther, 1, 3);
  Log(kOther, 2, 3);
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 3);
}

TEST_F(RunAggregatorTest, StepWaitBoundsUnattachedRankWait) {
  LogTwoStepsOfRankZeroOfTwo({.step_wait = absl::Seconds(2)});
  EXPECT_EQ(aggregator_->NextDeadline(), now_ + absl::Seconds(2));
  now_ += absl::Seconds(2);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1));
}

// The processes of a node start within seconds of each other.
TEST_F(RunAggregatorTest, AttachRestartsTheFirstRowWait) {
  LogTwoStepsOfRankZeroOfTwo();
  EXPECT_EQ(aggregator_->NextDeadline(), now_ + absl::Seconds(5));
  now_ += absl::Seconds(4);
  Join(kOther, 1, false);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(aggregator_->NextDeadline(), now_ + absl::Seconds(5));
  now_ += absl::Seconds(4);
  EXPECT_THAT(Advance(), IsEmpty());
  Log(kOther, 1, 3);
  Log(kOther, 2, 3);
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 3);
  EXPECT_EQ(late(kOther), 0u);
}

TEST_F(RunAggregatorTest, UnattachedRankDelaysOnlyFirstRows) {
  LogTwoStepsOfRankZeroOfTwo();
  now_ += absl::Seconds(5);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1));
  Log(kPrimary, 3, 1);
  EXPECT_THAT(Steps(Advance()), ElementsAre(2));
}

// In some programs only rank 0 logs the training, and every rank logs its evaluations.
TEST_F(RunAggregatorTest, SilentRankDelaysRowsOnlyBriefly) {
  StartTwo();
  Log(kPrimary, 1, 1);
  Log(kPrimary, 2, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  now_ += absl::Seconds(5);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1));

  // Its first row is in time, even if it comes a moment after the others passed the step.
  Log(kPrimary, 3, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(aggregator_->NextDeadline(), now_ + absl::Seconds(1));
  Log(kOther, 2, 5);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(aggregator_->NextDeadline(), now_ + absl::Seconds(30));
  Log(kOther, 3, 5);
  EXPECT_EQ(Advance().at(0)["rank_max/loss"], 5);
  EXPECT_EQ(late(kOther), 0u);
}

TEST_F(RunAggregatorTest, RowAtClosedStepIsLate) {
  StartTwo();
  Log(kPrimary, 1, 1);
  Log(kPrimary, 2, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  now_ += absl::Seconds(5);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1));
  Log(kOther, 1, 5);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(late(kOther), 1u);
}

// A restarted daemon knows that the rank logs.
TEST_F(RunAggregatorTest, WaitsForRankThatLoggedBefore) {
  Start();
  Join(kPrimary, 0, true);
  streams_[kOther] = StreamOf(kOther, 1, false);
  streams_[kOther].durable_seq = streams_[kOther].aggregated_seq = 3;
  aggregator_->AddStream(streams_[kOther]);
  Log(kPrimary, 1, 1);
  Log(kPrimary, 2, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(aggregator_->NextDeadline(), now_ + absl::Seconds(30));
}

TEST_F(RunAggregatorTest, WaitingPausesReadingOtherRanks) {
  StartTwo();
  Log(kPrimary, 1, 1);
  Log(kPrimary, 2, 1);
  EXPECT_TRUE(aggregator_->holds_back(kPrimary));
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_FALSE(aggregator_->holds_back(kPrimary));
  EXPECT_TRUE(aggregator_->holds_back(kOther));
  now_ += absl::Seconds(5);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1));
  EXPECT_TRUE(aggregator_->holds_back(kPrimary));
}

TEST_F(RunAggregatorTest, StepClosesAfterTheStepWait) {
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
  EXPECT_EQ(rows[0]["rank_max/loss"], 2);  // has the rows that had arrived by then
  EXPECT_EQ(aggregator_->NextDeadline(), absl::InfiniteFuture());

  // A step waits only briefly for a silent rank. Rows that come too late are counted.
  Log(kPrimary, 3, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  now_ += absl::Seconds(1);
  EXPECT_THAT(Steps(Advance()), ElementsAre(2));
  Log(kOther, 2, 5);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(late(kOther), 1u);

  // Once the rank has caught up, steps wait for it again.
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
  End(kOther);
  EXPECT_THAT(Advance(), IsEmpty());
  now_ += absl::Hours(1);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_TRUE(aggregator_->all_streams_ended());
  EXPECT_TRUE(stored_.consumed.empty());

  Join(kPrimary, 0, true);
  EXPECT_FALSE(aggregator_->all_streams_ended());
  for (int step = 0; step < 5; ++step) Log(kPrimary, step, 10);
  End(kPrimary);
  const std::vector<RunRow> rows = Advance();
  ASSERT_THAT(Steps(rows), ElementsAre(0, 1, 2, 3, 4));
  for (int step = 0; step < 5; ++step) EXPECT_EQ(rows[step]["rank_min/loss"], step);
  EXPECT_EQ(late(kOther) + late(kPrimary), 0u);
}

TEST_F(RunAggregatorTest, CloseAllConsumesRowsWithoutPrimary) {
  Start();
  Join(kOther, 1, false);
  Log(kOther, 7, 1);
  Log(kOther, 8, 1);
  End(kOther);
  aggregator_->CloseAll();
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(stored_.consumed[kOther].seq, 2u);
  EXPECT_EQ(late(kOther), 0u);
  EXPECT_EQ(aggregator_->open_values(), 0u);
  // If a primary attaches nevertheless, it loses nothing.
  Join(kPrimary, 0, true);
  Log(kPrimary, 3, 1);
  End(kPrimary);
  EXPECT_THAT(Steps(Advance()), ElementsAre(3));
}

TEST_F(RunAggregatorTest, WaitsAgainAfterPrimaryRestart) {
  StartTwo();
  Log(kPrimary, 1, 1);
  End(kPrimary);
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

TEST_F(RunAggregatorTest, ProgressCountsOnceRowsArrived) {
  StartTwo();
  model::Stream ended = streams_[kPrimary];
  ended.durable_seq = 2;
  ended.passed_step = 50;
  ended.state = model::StreamState::kFinished;
  aggregator_->AddStream(ended);
  End(kOther);
  Log(kPrimary, 1, 1);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_FALSE(aggregator_->all_streams_ended());
  Log(kPrimary, 2, 1);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1, 2));
  EXPECT_TRUE(aggregator_->all_streams_ended());
}

TEST_F(RunAggregatorTest, NamesTheDelayingStream) {
  StartTwo();
  EXPECT_TRUE(aggregator_->holds_back(kPrimary));
  EXPECT_TRUE(aggregator_->holds_back(kOther));
  for (int step = 0; step < 5; ++step) Log(kOther, step, 1);
  EXPECT_TRUE(aggregator_->holds_back(kPrimary));
  EXPECT_FALSE(aggregator_->holds_back(kOther));
  EXPECT_GE(aggregator_->open_values(), 5u);
}

}  // namespace
}  // namespace ranklog::aggregate
