// How RankWatch sees the end of a rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "tests/service/ingest/rank_watch_fixture.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::RingImage;
using ::ranklog::testing::WaitFor;
using ::testing::HasSubstr;

TEST_F(RankWatchTest, FinishedRingFinishesTheRank) {
  RingImage ring = Ring(1);
  ring.header().finished = 1;
  ring.header().exit_code = 3;
  Leave(1, std::move(ring));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1); }));
  EXPECT_EQ(StreamOf(1).state, model::StreamState::kFinished);
  EXPECT_EQ(StreamOf(1).exit_code, 3);
}

TEST_F(RankWatchTest, LockedRingWaitsForRelease) {
  Leave(1, Ring(1));
  {
    const UniqueFd rank = Lock(1);
    Watch();
    ExpectItLooksOn(2);
    EXPECT_TRUE(IsThere(1));
    EXPECT_EQ(StreamOf(1).id, 0);
  }
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
}

// gRPC reports the end some milliseconds later. It never does while a forked child has the
// connection.
TEST_F(RankWatchTest, ConnectionDoesNotOutliveItsProcess) {
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Minutes(1));
  ChildProcess rank({"tail", "-f", "/dev/null"});
  const model::Stream stream = AttachAndLose(1, nullptr);
  registry_.Attach(stream, nullptr, PeerWith(rank.pid()));
  Leave(1, Ring(1));
  registry_.OfferRing(1, *RingFile::OpenLeft(RingPath(1)));
  ExpectItLooksOn(2);
  EXPECT_FALSE(HasEnded(1));
  rank.Kill();
  EXPECT_TRUE(IsEndedWhenCaughtUp(1));
}

TEST_F(RankWatchTest, StreamWithoutRingGetsAttachGrace) {
  AttachAndLose(1, nullptr);
  Watch(/*attach_grace=*/absl::Hours(1));
  ExpectItLooksOn(2);
  EXPECT_FALSE(HasEnded(1));
  watch_->Stop();
  watch_->Stop();
  registry_.Remove(StreamOf(1).key);

  Watch(/*attach_grace=*/absl::ZeroDuration());
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1); }));
  EXPECT_EQ(StreamOf(1).state, model::StreamState::kCrashed);
  EXPECT_THAT(StreamOf(1).reason, HasSubstr("could not be read"));
}

// A process that has closed all of its descriptors has neither lock nor connection until it
// returns.
TEST_F(RankWatchTest, RankEndsWithItsProcess) {
  ChildProcess rank({"tail", "-f", "/dev/null"});
  Leave(1, Ring(1));
  AttachAndLose(1, PeerWith(rank.pid()));
  Watch();
  ExpectItLooksOn(2);
  EXPECT_FALSE(HasEnded(1));
  EXPECT_TRUE(IsThere(1));

  rank.Kill();
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  EXPECT_EQ(StreamOf(1).state, model::StreamState::kCrashed);
}

TEST_F(RankWatchTest, ReleasedFinishedRingEndsTheRank) {
  RingImage ring = Ring(1);
  ring.header().finished = 1;
  Leave(1, std::move(ring));
  AttachAndLose(1, PeerWith(getpid()));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1); }));
  EXPECT_EQ(StreamOf(1).state, model::StreamState::kFinished);
}

// As after exec(). But the process may have closed descriptors that are not its own, and log on.
TEST_F(RankWatchTest, ReleasedRingIsRereadAtExit) {
  let_go_ = absl::Milliseconds(5);
  ChildProcess rank({"tail", "-f", "/dev/null"});
  RingImage ring = Ring(1);
  Leave(1, ring);
  AttachAndLose(1, PeerWith(rank.pid()));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1); }));
  EXPECT_EQ(StreamOf(1).state, model::StreamState::kCrashed);
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
  EXPECT_THAT(StreamOf(1).reason, HasSubstr("released its spool"));
  ExpectItLooksOn(2);
  ASSERT_TRUE(IsThere(1));

  ring.Row(3, 2, {0.125});
  std::ofstream(RingPath(1), std::ios::binary) << ring.bytes();
  ExpectItLooksOn(3);
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
  rank.Kill();
  ASSERT_TRUE(WaitFor([&] { return !IsThere(1); }));
  EXPECT_EQ(StreamOf(1).durable_seq, 3u);
}

TEST_F(RankWatchTest, AttachAfterExecEndsFormerProgram) {
  Leave(1, Ring(1));
  const model::Stream stream = AttachAndLose(1, PeerWith(getpid()));
  Watch();
  ExpectItLooksOn(2);
  EXPECT_FALSE(HasEnded(1));
  registry_.SetReplaced(stream.key);
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
}

}  // namespace
}  // namespace ranklog::ingest
