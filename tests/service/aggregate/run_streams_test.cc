#include "service/aggregate/run_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/aggregate/rows.h"

namespace ranklog::aggregate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RunStreamsTest : public ::testing::Test {
 protected:
  StreamRows& Join(const model::Stream& stream) {
    streams_.Add(stream, /*step_base=*/0);
    streams_.Update(stream);
    return *streams_.Find(stream.id);
  }
  static void Push(StreamRows& stream, int64_t step, bool dropped = false) {
    OpenRow row;
    row.seq = ++stream.added_seq;
    row.step = step;
    row.dropped = dropped;
    stream.rows.Push(std::move(row), nullptr);
  }

  RunStreams streams_;
};

TEST_F(RunStreamsTest, OrdersOthersByRankAndId) {
  StreamRows& late = Join(StreamOf(7, 2, false));
  StreamRows& primary = Join(StreamOf(3, 0, true));
  StreamRows& second = Join(StreamOf(5, 1, false));
  StreamRows& first = Join(StreamOf(4, 1, false));
  EXPECT_THAT(streams_.primaries(), ElementsAre(&primary));
  EXPECT_THAT(streams_.others(), ElementsAre(&first, &second, &late));
  EXPECT_EQ(streams_.Find(6), nullptr);
}

TEST_F(RunStreamsTest, CountsRanksOfTheAttempt) {
  model::Stream stream = StreamOf(1, 0, true);
  stream.identity.local_world_size = 2;
  stream.state = model::StreamState::kFinished;
  Join(stream);
  EXPECT_TRUE(streams_.HasAbsentRanks());
  Join(StreamOf(2, 1, false));
  EXPECT_FALSE(streams_.HasAbsentRanks());
  streams_.BeginAttempt(2, /*last_step=*/-1);  // rank 0 has ended
  EXPECT_TRUE(streams_.HasAbsentRanks());
}

TEST_F(RunStreamsTest, NextPrimaryStepSkipsDroppedRows) {
  StreamRows& primary = Join(StreamOf(1, 0, true));
  EXPECT_EQ(streams_.NextPrimaryStep(-1), kEveryStep);
  Push(primary, 3, /*dropped=*/true);
  Push(primary, 5);
  EXPECT_EQ(streams_.NextPrimaryStep(-1), 5);
  EXPECT_EQ(primary.consumed_seq, 1u);
}

TEST_F(RunStreamsTest, RowUsedBeforeItsStepIsLate) {
  StreamRows& other = Join(StreamOf(2, 1, false));
  Push(other, 3);
  Push(other, 4);
  streams_.ConsumeOthersBelow(4, /*every=*/false, /*last_step=*/-1);
  EXPECT_THAT(other.rows, SizeIs(1));
  EXPECT_THAT(streams_.TakeConsumed(), IsEmpty());  // a primary may still bring step 3
  streams_.SettlePassed(3);
  const std::vector<Aggregated::Consumed> consumed = streams_.TakeConsumed();
  ASSERT_THAT(consumed, SizeIs(1));
  EXPECT_EQ(consumed[0].seq, 1u);
  EXPECT_EQ(consumed[0].new_late_rows, 1u);
  EXPECT_THAT(streams_.TakeConsumed(), IsEmpty());
}

TEST_F(RunStreamsTest, LaterProcessReplacesLiveStream) {
  StreamRows& old = Join(StreamOf(2, 1, false));
  Push(old, 3);
  model::Stream next = StreamOf(4, 1, false);
  next.attempt = 2;
  Join(next);
  streams_.DropReplaced(1, /*last_step=*/-1);
  EXPECT_FALSE(old.overtaken);
  streams_.BeginAttempt(2, /*last_step=*/-1);
  EXPECT_TRUE(old.overtaken);
  EXPECT_TRUE(old.rows.empty());
  EXPECT_EQ(old.replayed_rows, 1u);
}

}  // namespace
}  // namespace ranklog::aggregate
