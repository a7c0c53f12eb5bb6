// A continued run: attempts follow each other, rows from a checkpoint on are replays, and the steps
// of rows without a step continue.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/service/aggregate/run_aggregator_fixture.h"

namespace ranklog::aggregate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kAgain = 3;       // rank 0's stream in the second attempt
constexpr int64_t kOtherAgain = 4;  // rank 1's stream in the second attempt

class RunAggregatorReplayTest : public RunAggregatorTest {
 protected:
  void JoinAttempt(int64_t id, uint32_t rank, uint32_t attempt) {
    model::Stream stream = StreamOf(id, rank, rank == 0);
    stream.attempt = attempt;
    stream.begun_step = stored_.run.last_step;
    JoinAs(stream);
  }
  void JoinAs(const model::Stream& stream) {
    streams_[stream.id] = stream;
    aggregator_->AddStream(stream);
    aggregator_->DefineShape(stream.id, 1, {"loss"});
  }
  // Continues the run from the store, without the streams whose rows are all used.
  void Restart(const std::vector<int64_t>& ids) {
    Start();
    for (const int64_t id : ids) {
      model::Stream stream = streams_[id];
      const Aggregated::Consumed& consumed = stored_.consumed[id];
      stream.aggregated_seq = consumed.seq;
      stream.late_rows = consumed.late_rows;
      stream.replayed_rows = consumed.replayed_rows;
      stream.merged_rows = consumed.merged_rows;
      stream.step_base = consumed.step_base;
      next_seq_[id] = consumed.seq;
      JoinAs(stream);
    }
  }
  // Rank 0 alone logs steps 0 to 4 and dies; its next process has attached.
  void CrashAtStepFour() {
    Start();
    JoinAttempt(kPrimary, 0, 1);
    for (int64_t step = 0; step <= 4; ++step) Log(kPrimary, step, 1);
    End(kPrimary);
    JoinAttempt(kAgain, 0, 2);
    Advance();
    ASSERT_THAT(Steps(stored_.rows), ElementsAre(0, 1, 2, 3, 4));
  }
  void LogWithoutStep(int64_t stream, int64_t counted) {
    Log(stream, {{.step = counted, .values = {3}, .commits = true}});
  }
};

TEST_F(RunAggregatorReplayTest, RepeatedStepsAreStoredAsReplays) {
  CrashAtStepFour();
  for (int64_t step = 2; step <= 6; ++step) Log(kAgain, step, 2);
  End(kAgain);
  EXPECT_THAT(Steps(Advance()), ElementsAre(5, 6));
  EXPECT_THAT(Steps(stored_.replays), ElementsAre(2, 3, 4));
  EXPECT_EQ(stored_.replays[0]["loss"], 2);
  ASSERT_EQ(stored_.rewinds.size(), 1u);
  EXPECT_EQ(stored_.rewinds[0].first_step, 2);
  EXPECT_EQ(stored_.rewinds[0].rows, 5u);
  EXPECT_EQ(stored_.rewinds[0].replays, 0u);
  EXPECT_EQ(late(kAgain), 0u);
  EXPECT_EQ(stored_.consumed[kAgain].replayed_rows, 3u);
  EXPECT_TRUE(aggregator_->all_streams_ended());
}

TEST_F(RunAggregatorReplayTest, CheckpointAtEndRewindsNothing) {
  CrashAtStepFour();
  Log(kAgain, 5, 2);
  End(kAgain);
  EXPECT_THAT(Steps(Advance()), ElementsAre(5));
  EXPECT_THAT(stored_.rewinds, IsEmpty());
}

TEST_F(RunAggregatorReplayTest, RowsWithoutAStepCountOn) {
  CrashAtStepFour();
  for (int64_t counted = 0; counted < 3; ++counted) LogWithoutStep(kAgain, counted);
  EXPECT_THAT(Steps(Advance()), ElementsAre(5, 6, 7));
  Restart({kAgain});
  LogWithoutStep(kAgain, 3);
  EXPECT_THAT(Steps(Advance()), ElementsAre(8));
  Log(kAgain, 20, 3);  // from now on the program gives steps
  LogWithoutStep(kAgain, 20);
  LogWithoutStep(kAgain, 21);
  EXPECT_THAT(Steps(Advance()), ElementsAre(20, 21));
  EXPECT_EQ(late(kAgain), 0u);
  EXPECT_THAT(stored_.rewinds, IsEmpty());
}

// Another thread had given a step, and its row comes second.
TEST_F(RunAggregatorReplayTest, GivenStepStopsCountingOn) {
  CrashAtStepFour();
  JoinAttempt(5, 0, 2);
  Log(5, {{.step = 291, .values = {3}, .commits = true, .counted = false}});
  Log(kAgain, 290, 2);
  Log(5, {{.step = 292, .values = {3}, .commits = true, .counted = false}});
  End(kAgain);
  End(5);
  EXPECT_THAT(Steps(Advance()), ElementsAre(290, 291, 292));
}

TEST_F(RunAggregatorReplayTest, DaemonRestartContinuesTheReplay) {
  CrashAtStepFour();
  Log(kAgain, 2, 2);
  Log(kAgain, 3, 2);
  Advance();
  ASSERT_THAT(Steps(stored_.replays), ElementsAre(2));
  Restart({kAgain});
  for (int64_t step = 3; step <= 5; ++step) Log(kAgain, step, 2);
  End(kAgain);
  EXPECT_THAT(Steps(Advance()), ElementsAre(5));
  EXPECT_THAT(Steps(stored_.replays), ElementsAre(2, 3, 4));
  EXPECT_EQ(stored_.rewinds.size(), 1u) << "it is one attempt";
  EXPECT_EQ(stored_.consumed[kAgain].replayed_rows, 3u);
}

// Earlier, they would be compared with steps that the run rewinds.
TEST_F(RunAggregatorReplayTest, OtherRanksWaitForPrimaryRow) {
  StartTwo();
  for (const int64_t stream : {kPrimary, kOther}) {
    for (int64_t step = 0; step <= 4; ++step) Log(stream, step, 1);
    End(stream);
  }
  EXPECT_THAT(Advance().size(), 5u);
  JoinAttempt(kOtherAgain, 1, 2);
  Advance();
  EXPECT_FALSE(aggregator_->takes(kOtherAgain)) << "its attempt has no primary yet";
  JoinAttempt(kAgain, 0, 2);
  Advance();
  EXPECT_EQ(aggregator_->attempt(), 2u);
  EXPECT_FALSE(aggregator_->takes(kOtherAgain));
  EXPECT_TRUE(aggregator_->takes(kAgain));
  Log(kAgain, 2, 10);
  EXPECT_TRUE(aggregator_->takes(kOtherAgain));
  Log(kOtherAgain, 1, 20);  // it has gone back further
  Log(kOtherAgain, 2, 20);
  End(kAgain);
  End(kOtherAgain);
  Advance();
  ASSERT_THAT(Steps(stored_.replays), ElementsAre(2));
  EXPECT_EQ(stored_.replays[0]["rank_mean/loss"], 15);
  EXPECT_EQ(late(kOtherAgain), 0u);
  EXPECT_EQ(stored_.consumed[kOtherAgain].replayed_rows, 1u);
}

// Rank 0 alone restarted; rank 1 continues.
TEST_F(RunAggregatorReplayTest, LiveRankContinuesInNextAttempt) {
  StartTwo();
  for (int64_t step = 0; step <= 2; ++step) {
    Log(kPrimary, step, 1);
    LogWithoutStep(kOther, step);
  }
  End(kPrimary);
  JoinAttempt(kAgain, 0, 2);
  Advance();
  Log(kOther, 3, 5);
  Log(kAgain, 2, 2);
  Log(kAgain, 3, 1);
  Log(kAgain, 4, 1);
  Log(kOther, 4, 5);
  EXPECT_THAT(Steps(Advance()), ElementsAre(3));
  EXPECT_EQ(stored_.rows.back()["rank_mean/loss"], 3);
  EXPECT_EQ(late(kOther), 0u);
}

// The job was restarted while its rank 1 hung. Then the old rank 1 continues.
TEST_F(RunAggregatorReplayTest, ReplacedLiveRankIsLeftOut) {
  StartTwo();
  for (int64_t step = 0; step <= 2; ++step) {
    Log(kPrimary, step, 1);
    Log(kOther, step, 1);
  }
  Log(kOther, 3, 100);
  End(kPrimary);
  JoinAttempt(kOtherAgain, 1, 2);
  JoinAttempt(kAgain, 0, 2);
  Advance();
  Log(kOther, 4, 100);
  for (int64_t step = 2; step <= 4; ++step) {
    Log(kAgain, step, 1);
    Log(kOtherAgain, step, 3);
  }
  End(kAgain);
  End(kOtherAgain);
  EXPECT_THAT(Steps(Advance()), ElementsAre(3, 4));
  for (const RunRow& row : stored_.replays) EXPECT_EQ(row["rank_mean/loss"], 2);
  EXPECT_EQ(stored_.rows[3]["rank_mean/loss"], 2);
  EXPECT_EQ(stored_.rows[4]["rank_mean/loss"], 2);
  EXPECT_EQ(late(kOther), 0u);
  EXPECT_EQ(stored_.consumed[kOther].replayed_rows, 2u);
}

// Found by the simulation: a daemon that takes up everything at once sees the end of each attempt
// before the rows of the next one.
TEST_F(RunAggregatorReplayTest, RowsBeyondAttemptJoinTheNext) {
  StartTwo();
  for (int64_t step = 0; step <= 2; ++step) Log(kPrimary, step, 1);
  for (int64_t step = 0; step <= 4; ++step) Log(kOther, step, 3);
  End(kPrimary);
  End(kOther);
  JoinAttempt(kAgain, 0, 2);
  End(kAgain);
  aggregator_->CloseAll();
  EXPECT_THAT(Steps(Advance()), ElementsAre(0, 1, 2));
  for (int64_t step = 3; step <= 4; ++step) Log(kAgain, step, 1);
  EXPECT_THAT(Steps(Advance()), ElementsAre(3, 4));
  EXPECT_EQ(stored_.rows.back()["rank_mean/loss"], 2);
}

TEST_F(RunAggregatorReplayTest, RestartedOtherRankReplays) {
  StartTwo();
  for (int64_t step = 0; step <= 3; ++step) {
    Log(kPrimary, step, 1);
    Log(kOther, step, 1);
  }
  End(kOther);
  Advance();
  model::Stream again = StreamOf(kOtherAgain, 1, false);
  again.began_anew = true;
  again.begun_step = 2;
  JoinAs(again);
  for (int64_t step = 1; step <= 3; ++step) Log(kOtherAgain, step, 1);
  Advance();
  EXPECT_EQ(stored_.consumed[kOtherAgain].replayed_rows, 2u);
  EXPECT_EQ(late(kOtherAgain), 0u);
}

TEST_F(RunAggregatorReplayTest, SameStepRowsCountAsMerged) {
  Start();
  JoinAttempt(kPrimary, 0, 1);
  JoinAttempt(5, 0, 1);  // another thread
  for (int i = 0; i < 100; ++i) Log(kPrimary, 1, i);
  Log(kPrimary, {{.step = 2, .shape = 0}});  // no metrics
  Log(5, 1, 7);
  Log(5, 3, 7);
  End(kPrimary);
  End(5);
  EXPECT_THAT(Steps(Advance()), ElementsAre(1, 3));
  EXPECT_EQ(stored_.consumed[kPrimary].merged_rows + stored_.consumed[5].merged_rows, 101);
}

}  // namespace
}  // namespace ranklog::aggregate
