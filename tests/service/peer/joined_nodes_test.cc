// The ranks of two nodes in one run: orders of starts, cuts, restarts and ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ranklog/v1/spool_layout.h"
#include "tests/service/peer/nodes_fixture.h"

namespace ranklog::peer {
namespace {

using model::Joined;
using model::RunState;
using model::StreamState;
using ::testing::HasSubstr;

// The ranks of both nodes, each with as many rows.
class JoinedNodesTest : public NodesTest {
 protected:
  void AttachHome(const std::string& start = "1") {
    rank_[0] = home_.Attach(0, 0, start);
    rank_[1] = home_.Attach(1, 1, start);
  }
  void AttachAway() {
    rank_[2] = away_.Attach(2, 0);
    rank_[3] = away_.Attach(3, 1);
  }
  void AttachAll() {
    AttachHome();
    AttachAway();
  }
  Node& NodeOf(uint32_t rank) { return rank < 2 ? home_ : away_; }
  // Each rank logs its number.
  void Log(int64_t from, int64_t to, std::vector<uint32_t> ranks = {0, 1, 2, 3}) {
    for (const uint32_t rank : ranks) NodeOf(rank).Log(rank_[rank], from, to, rank);
  }
  // All ranks attach and log five rows, which arrive.
  void Begin() {
    AttachAll();
    Log(0, 4);
    Pass(absl::Seconds(2));
  }
  // Home makes the next five rows without the other node.
  void CutForLong() {
    network_.cut = true;
    Log(5, 9);
    Pass(absl::Seconds(32));
  }
  void End(std::vector<uint32_t> ranks = {0, 1, 2, 3}) {
    for (const uint32_t rank : ranks) NodeOf(rank).End(rank_[rank]);
  }
  std::vector<aggregate::RunRow> Rows() { return home_.Rows(rank_[0]); }
  // All rows are made of all ranks.
  void ExpectAllJoined(size_t rows) {
    const auto made = Rows();
    ASSERT_EQ(made.size(), rows);
    for (size_t i = 0; i < rows; ++i) {
      EXPECT_EQ(made[i].step, static_cast<int64_t>(i));
      EXPECT_EQ(made[i]["rank_mean/loss"], 1.5) << made[i];
      EXPECT_EQ(made[i]["rank_argmax/loss"], 3) << made[i];
      EXPECT_FALSE(made[i].Has("rank_count/loss")) << made[i];
    }
  }
  model::Stream At(Node& node, uint32_t rank) {
    const int64_t any = rank_[&node == &home_ ? 0 : 2];
    for (const model::Stream& stream : node.StreamsOf(any)) {
      if (stream.key.rank == rank) return stream;
    }
    ADD_FAILURE() << "no stream of rank " << rank;
    return {};
  }
  // Everything of the ranks 2 and 3 is at home, once.
  void ExpectWhole(uint64_t rows) {
    for (const uint32_t rank : {2u, 3u}) {
      const model::Stream here = At(away_, rank);
      const model::Stream there = At(home_, rank);
      EXPECT_EQ(here.joined, Joined::kWhole);
      EXPECT_EQ(here.joined_seq, rows);
      EXPECT_EQ(there.durable_seq, rows);
      EXPECT_EQ(there.aggregated_seq, rows);
      EXPECT_EQ(there.peer, "away");
      EXPECT_EQ(there.losses.total(), 0u);
    }
  }

  int64_t rank_[4] = {};
};

TEST_F(JoinedNodesTest, RowsHaveStatisticsOverAllRanks) {  // S48
  AttachAll();
  Log(0, 9);
  Pass(absl::Seconds(2));
  ExpectAllJoined(10);
  End();
  Pass(absl::Seconds(4));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  EXPECT_EQ(home_.RunOf(rank_[0]).late_rows, 0u);
  ExpectWhole(10);
  EXPECT_TRUE(away_.sender->Links().empty());
  EXPECT_EQ(away_.sender->late_rows(), 0u);
}

TEST_F(JoinedNodesTest, HomeComesLast) {
  AttachAway();
  Log(0, 9, {2, 3});
  Pass(absl::Seconds(3));
  ASSERT_EQ(away_.sender->Links().size(), 1u);
  EXPECT_THAT(away_.sender->Links()[0].error, HasSubstr("rank 0"));
  EXPECT_EQ(away_.sender->Links()[0].waiting_rows, 20u);
  AttachHome();
  Log(0, 9, {0, 1});
  Pass(absl::Seconds(4));
  ExpectAllJoined(10);
}

// The other node has ended before rank 0 begins, and its rows wait in its store.
TEST_F(JoinedNodesTest, OtherNodeEndsBeforeHomeComes) {
  AttachAway();
  Log(0, 9, {2, 3});
  End({2, 3});
  Pass(absl::Seconds(3));
  AttachHome();
  Log(0, 9, {0, 1});
  Pass(absl::Seconds(4));
  ExpectAllJoined(10);
  End({0, 1});
  Pass(absl::Seconds(2));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  ExpectWhole(10);
}

TEST_F(JoinedNodesTest, LostAnswersAndRepeatedRequestsDoubleNothing) {
  network_.lose_answer_of = 2;
  network_.twice = true;
  AttachAll();
  for (int64_t step = 0; step < 40; ++step) {
    Log(step, step);
    Pass(absl::Seconds(1));
  }
  End();
  Pass(absl::Seconds(20));
  ExpectAllJoined(40);
  ExpectWhole(40);
  EXPECT_EQ(home_.RunOf(rank_[0]).late_rows, 0u);
  EXPECT_GT(network_.requests, 40);
}

// A short cut is shorter than the wait for a rank that is behind.
TEST_F(JoinedNodesTest, ShortCutDelaysRows) {
  Begin();
  network_.cut = true;
  Log(5, 9);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Rows().size(), 5u);
  network_.cut = false;
  Pass(absl::Seconds(10));
  ExpectAllJoined(10);
}

// A link that is cut without an error shows itself in `status` before the request's limit is over.
TEST_F(JoinedNodesTest, SilenceIsAnErrorSoon) {
  Begin();
  network_.silent = true;
  Log(5, 9);
  Pass(absl::Seconds(4));
  ASSERT_EQ(away_.sender->Links().size(), 1u);
  EXPECT_EQ(away_.sender->Links()[0].error, "");
  Pass(absl::Seconds(6));
  EXPECT_THAT(away_.sender->Links()[0].error, HasSubstr("no answer"));
  EXPECT_EQ(away_.sender->Links()[0].waiting_rows, 10u);
  Log(10, 10);
  Pass(absl::Milliseconds(250));
  EXPECT_EQ(away_.sender->Links()[0].waiting_rows, 12u);
}

// A daemon that drains waits for the rows, and for the ends, without which home does not end.
TEST_F(JoinedNodesTest, EverythingIsSentWhenHomeHasTheEnds) {
  AttachAll();
  Log(0, 4);
  EXPECT_FALSE(away_.sender->sent()) << "not looked at yet";
  Pass(absl::Seconds(2));
  EXPECT_TRUE(away_.sender->sent());
  network_.cut = true;
  Log(5, 5);
  Pass(absl::Seconds(30));
  EXPECT_FALSE(away_.sender->sent());
  network_.cut = false;
  Pass(absl::Seconds(12));
  EXPECT_TRUE(away_.sender->sent());
  network_.cut = true;
  End();
  Pass(absl::Seconds(30));
  EXPECT_FALSE(away_.sender->sent());
  network_.cut = false;
  Pass(absl::Seconds(12));
  EXPECT_TRUE(away_.sender->sent());
}

// After a long cut, the rows say of how many ranks they are, and what comes later is late.
TEST_F(JoinedNodesTest, LongCutCostsABoundedWait) {
  Begin();
  CutForLong();
  ASSERT_EQ(Rows().size(), 10u);
  for (size_t i = 5; i < 10; ++i) {
    EXPECT_EQ(Rows()[i]["rank_mean/loss"], 0.5);
    EXPECT_EQ(Rows()[i]["rank_count/loss"], 2);
  }
  ASSERT_EQ(away_.sender->Links().size(), 1u);
  EXPECT_THAT(away_.sender->Links()[0].error, HasSubstr("cut"));
  network_.cut = false;
  Pass(absl::Seconds(35));
  Log(10, 14);
  End();
  Pass(absl::Seconds(3));
  ASSERT_EQ(Rows().size(), 15u);
  for (size_t i = 10; i < 15; ++i) EXPECT_EQ(Rows()[i]["rank_mean/loss"], 1.5) << Rows()[i];
  ExpectWhole(15);
  EXPECT_EQ(home_.RunOf(rank_[0]).late_rows, 10u);
  for (const uint32_t rank : {2u, 3u}) {
    EXPECT_EQ(At(home_, rank).late_rows, 5u);
    EXPECT_EQ(At(away_, rank).joined_late, 5u) << "its own node knows";
  }
  EXPECT_EQ(away_.sender->late_rows(), 10u);
}

// The last rows become late after home has acknowledged the end: their node asks until it is known.
TEST_F(JoinedNodesTest, LateRowsAreKnownAfterTheEnd) {
  Begin();
  CutForLong();
  End({2, 3});
  network_.cut = false;
  Pass(absl::Seconds(20));
  EXPECT_EQ(At(away_, 2).joined, Joined::kWhole);
  EXPECT_EQ(At(away_, 2).joined_late, 5u);
  EXPECT_TRUE(home_.receiver->told());
  EXPECT_TRUE(away_.sender->sent());
}

TEST_F(JoinedNodesTest, LateRowsAreKnownWhileTheRanksLive) {
  Begin();
  CutForLong();
  network_.cut = false;
  Pass(absl::Seconds(10));
  Log(10, 14);
  Pass(absl::Seconds(10));
  EXPECT_EQ(At(away_, 2).joined, Joined::kOpen);
  EXPECT_EQ(At(away_, 2).joined_late, 5u);
}

// Home's rows of rank 1 come late, so home cannot say yet whether those of the others are in time.
TEST_F(JoinedNodesTest, NodeAsksUntilHomeKnowsWhatIsLate) {
  AttachAll();
  Log(0, 4, {0, 2, 3});
  End({2, 3});
  Pass(absl::Seconds(4));
  EXPECT_EQ(At(home_, 2).aggregated_seq, 0u) << "rank 1 is waited for";
  EXPECT_EQ(At(away_, 2).joined, Joined::kOpen);
  EXPECT_EQ(At(away_, 2).joined_seq, 5u);
  EXPECT_FALSE(home_.receiver->told());
  EXPECT_FALSE(away_.sender->sent());
  Log(0, 4, {1});
  Pass(absl::Seconds(6));
  EXPECT_TRUE(home_.receiver->told());
  EXPECT_TRUE(away_.sender->sent());
  ExpectWhole(5);
  EXPECT_EQ(At(away_, 2).joined_late, 0u);
}

// `rm` and `verify` must know that rows wait, even if home was never reached.
TEST_F(JoinedNodesTest, StreamsAreMarkedBeforeHomeAnswers) {
  network_.cut = true;
  AttachAll();
  Pass(absl::Seconds(2));
  EXPECT_TRUE(At(away_, 2).joins);
  EXPECT_FALSE(At(home_, 0).joins);
  EXPECT_LT(away_.sender->Links()[0].stuck_since, now_);
}

TEST_F(JoinedNodesTest, RestartsOfBothDaemonsLoseAndDoubleNothing) {
  AttachAll();
  for (int64_t step = 0; step < 30; ++step) {
    Log(step, step);
    Pass(absl::Milliseconds(250));
    if (step % 10 == 3) {
      home_.Kill();
      home_.Start();
      Pass(absl::Seconds(2));
    }
    if (step % 10 == 6) {
      away_.Kill();
      away_.Start();
    }
  }
  End();
  Pass(absl::Seconds(10));
  ExpectAllJoined(30);
  ExpectWhole(30);
  EXPECT_EQ(home_.RunOf(rank_[0]).late_rows, 0u);
}

TEST_F(JoinedNodesTest, NodeThatIsGoneEndsTheRunAfterAWait) {
  Begin();
  network_.cut = true;
  End({0, 1});
  Pass(absl::Seconds(20));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kRunning);
  Pass(absl::Seconds(15));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  EXPECT_THAT(At(home_, 2).reason, HasSubstr("not heard of"));
  EXPECT_TRUE(model::SpoolIsUnread(At(home_, 2)))
      << "`show` and `verify` say that rows may be missing";
  // It comes back: its last rows are late, and stay on its node.
  Log(5, 6, {2, 3});
  End({2, 3});
  network_.cut = false;
  Pass(absl::Seconds(120));
  EXPECT_EQ(At(away_, 2).joined, Joined::kLate);
  EXPECT_EQ(At(away_, 2).joined_seq, 5u);
  EXPECT_EQ(away_.sender->late_rows(), 4u);  // two of each rank
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  EXPECT_TRUE(away_.sender->Links().empty());
}

// A rank that was ended as lost has not finished, so its next process belongs to the same start.
TEST_F(JoinedNodesTest, NextProcessOfALostRankIsLate) {
  restarts_ranks_ = true;
  Begin();
  network_.cut = true;
  End({0, 1});
  Pass(absl::Seconds(40));
  ASSERT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  away_.End(rank_[2], StreamState::kCrashed, 1, "killed");
  rank_[2] = away_.Attach(2, 0);
  away_.Log(rank_[2], 3, 6, 2);
  End({2, 3});
  network_.cut = false;
  Pass(absl::Minutes(3));
  for (const model::Stream& stream : away_.StreamsOf(rank_[2])) {
    EXPECT_NE(stream.joined, Joined::kOpen) << stream.id;
  }
  EXPECT_TRUE(away_.sender->Links().empty());
}

// A rank of the other node never attaches there, and the node is not heard of.
TEST_F(JoinedNodesTest, AbsentAndLostRanksCostOneWait) {
  AttachHome();
  rank_[2] = away_.Attach(2, 0);
  Log(0, 4, {0, 1, 2});
  Pass(absl::Seconds(2));
  network_.cut = true;
  End({0, 1});
  Pass(absl::Seconds(35));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
}

// The home starts again between two requests, so the sender sees no error.
TEST_F(JoinedNodesTest, SilentRanksAreHeardOfAfterARestartOfTheHome) {
  AttachAll();
  Log(0, 4);
  Pass(absl::Seconds(3));
  home_.Kill();
  home_.Start();
  End({0, 1});
  Pass(absl::Minutes(2));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kRunning);
  End({2, 3});
  Pass(absl::Seconds(5));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  ExpectWhole(5);
}

TEST_F(JoinedNodesTest, LostProgressIsSentAgain) {
  Begin();
  network_.cut = true;
  away_.Write([&](storage::Store& store) { return store.SetProgress(rank_[2], 50); });
  away_.Notify(away_.runs[rank_[2]]);
  Pass(absl::Seconds(2));
  network_.cut = false;
  Pass(absl::Seconds(20));
  EXPECT_EQ(At(home_, 2).passed_step, 50);
}

// The other node is heard of, so its ranks are waited for.
TEST_F(JoinedNodesTest, RunEndsWithTheLastRankOfAnyNode) {
  AttachAll();
  Log(0, 4);
  End({0, 1});
  Pass(absl::Minutes(3));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kRunning);
  away_.End(rank_[2], StreamState::kCrashed, 137, "rank 2 was killed by signal 9");
  End({3});
  Pass(absl::Seconds(3));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kCrashed);
  EXPECT_EQ(home_.RunOf(rank_[0]).exit_code, 137);
  EXPECT_EQ(home_.RunOf(rank_[0]).reason, "rank 2 was killed by signal 9");
}

// A node that never joins costs the first step a wait, and the end.
TEST_F(JoinedNodesTest, NodeThatNeverComes) {
  network_.cut = true;
  AttachAll();
  Log(0, 4);
  Pass(absl::Seconds(6));
  ASSERT_EQ(Rows().size(), 5u);
  EXPECT_EQ(Rows()[4]["rank_count/loss"], 2);
  End();
  Pass(absl::Seconds(35));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  network_.cut = false;
  Pass(absl::Minutes(2));
  EXPECT_EQ(At(away_, 2).joined, Joined::kLate);
  EXPECT_EQ(At(away_, 2).joined_seq, 0u);
}

TEST_F(JoinedNodesTest, ElasticRestartWithResumeGoesOn) {
  resume_ = "allow";
  AttachAll();
  Log(0, 4);
  End();
  Pass(absl::Seconds(3));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  // The other node is first in the second start.
  rank_[2] = away_.Attach(2, 0, "2");
  rank_[3] = away_.Attach(3, 1, "2");
  for (const uint32_t rank : {2u, 3u}) away_.Log(rank_[rank], 0, 4, rank);
  Pass(absl::Seconds(3));
  rank_[0] = home_.Attach(0, 0, "2");
  rank_[1] = home_.Attach(1, 1, "2");
  for (const uint32_t rank : {0u, 1u}) home_.Log(rank_[rank], 0, 4, rank);
  Pass(absl::Seconds(5));
  End();
  Pass(absl::Seconds(3));
  EXPECT_EQ(home_.RunOf(rank_[0]).state, RunState::kFinished);
  ExpectAllJoined(10);
}

// A second start under the same id is another run, on both nodes.
TEST_F(JoinedNodesTest, SecondStartIsAnotherRun) {
  AttachAll();
  Log(0, 4);
  End();
  Pass(absl::Seconds(3));
  rank_[2] = away_.Attach(2, 0, "2");
  rank_[3] = away_.Attach(3, 1, "2");
  Pass(absl::Seconds(3));
  rank_[0] = home_.Attach(0, 0, "2");
  rank_[1] = home_.Attach(1, 1, "2");
  for (uint32_t rank = 0; rank < 4; ++rank) NodeOf(rank).Log(rank_[rank], 0, 6, rank);
  Pass(absl::Seconds(5));
  EXPECT_EQ(home_.RunOf(rank_[0]).run_id, "job-2");
  ExpectAllJoined(7);
}

// One launcher starts both nodes. The other node has no part in the first start, and is first in the
// second one.
TEST_F(JoinedNodesTest, RankOfTheNextStartDoesNotPullRankZeroIntoTheLast) {
  one_launcher_ = true;
  AttachHome();
  Log(0, 4, {0, 1});
  Pass(absl::Seconds(7));
  End({0, 1});
  rank_[2] = away_.Attach(2, 0, "2");
  rank_[3] = away_.Attach(3, 1, "2");
  Pass(absl::Seconds(3));
  AttachHome("2");
  EXPECT_EQ(home_.RunOf(rank_[0]).run_id, "job-2");
}

// Ranks of the other node alone log a step: it is no row of the run, as on one node.
TEST_F(JoinedNodesTest, OnlyStepsOfRankZeroAreRows) {
  AttachAll();
  Log(0, 4);
  Log(5, 6, {2, 3});
  Log(7, 7);
  Pass(absl::Seconds(5));
  for (const uint32_t rank : {0u, 1u}) {
    EXPECT_EQ(At(home_, rank).durable_seq, 6u);
  }
  EXPECT_EQ(Rows().size(), 6u);
  EXPECT_EQ(Rows()[5].step, 7);
}

// Rows that this node's store has lost are lost in the joined run, too, and hold nothing up.
TEST_F(JoinedNodesTest, LostRowsAreCounted) {
  AttachAll();
  for (const uint32_t rank : {2u, 3u}) {
    away_.Write([&](storage::Store& store) { return store.SkipTo(rank_[rank], 3); });
    away_.logged[rank_[rank]] = 3;
    away_.Log(rank_[rank], 3, 4, rank);
  }
  Log(0, 4, {0, 1});
  Pass(absl::Seconds(5));
  EXPECT_EQ(At(home_, 2).losses.with_store, 3u);
  ASSERT_EQ(Rows().size(), 5u);
  EXPECT_EQ(Rows()[2]["rank_count/loss"], 2);
  EXPECT_EQ(Rows()[3]["rank_mean/loss"], 1.5);
}

// A daemon may serve ranks of several nodes, and then its own address is that of rank 0.
TEST_F(JoinedNodesTest, ItsOwnStreamsAreNotTaken) {
  AttachHome();
  const int64_t other = home_.Attach(2, 0);
  home_.Log(other, 0, 4, 2);
  Pass(absl::Seconds(3));
  EXPECT_EQ(home_.StreamsOf(rank_[0]).size(), home_.runs[other] == home_.runs[rank_[0]] ? 3u : 2u);
}

// Under the other strategies, the run of rank 0 takes no ranks of other nodes.
TEST_F(JoinedNodesTest, OnlyMainIsJoined) {
  strategy_ = model::LogStrategy::kNode;
  AttachHome();
  strategy_ = model::LogStrategy::kMain;
  AttachAway();
  Log(0, 4);
  Pass(absl::Seconds(3));
  EXPECT_THAT(away_.sender->Links()[0].error, HasSubstr("strategy"));
}

TEST_F(JoinedNodesTest, TooManyHellosOfARequestComeAgain) {
  v1::PushRequest request;
  for (int i = 0; i <= PushReceiver::kMaxHellos; ++i) request.add_stream()->mutable_hello();
  home_.receiver->Handle(request, [](const v1::PushReply& reply) {
    EXPECT_EQ(reply.stream(0).result(), v1::PushedAnswer::REFUSED) << "it is empty";
    EXPECT_EQ(reply.stream(PushReceiver::kMaxHellos).result(), v1::PushedAnswer::NOT_YET);
  });
}

// A daemon with the key is trusted, but its mistakes must not end this one or its store.
TEST_F(JoinedNodesTest, ImpossibleNumbersAreRefused) {
  Begin();
  const model::Stream stream = At(home_, 2);
  v1::PushRequest request;
  v1::PushedStream& pushed = *request.add_stream();
  pushed.mutable_stream()->set_project(stream.key.project);
  pushed.mutable_stream()->set_job_id(stream.key.job_id);
  pushed.mutable_stream()->set_rank(2);
  pushed.mutable_stream()->set_incarnation(stream.key.incarnation);
  pushed.mutable_end()->set_last_seq((uint64_t{1} << 63) + 7);
  v1::PushedAnswer::Result result = v1::PushedAnswer::TAKEN;
  home_.receiver->Handle(request, [&](v1::PushReply reply) { result = reply.stream(0).result(); });
  EXPECT_EQ(result, v1::PushedAnswer::REFUSED);
  pushed.clear_end();
  v1::Hello& hello = *pushed.mutable_hello();
  hello.set_protocol(v1::kProtocolVersion);
  *hello.mutable_stream() = pushed.stream();
  hello.mutable_stream()->set_rank(0);
  hello.mutable_identity()->set_world_size(4);
  *pushed.mutable_stream() = hello.stream();
  home_.receiver->Handle(request, [&](v1::PushReply reply) { result = reply.stream(0).result(); });
  EXPECT_EQ(result, v1::PushedAnswer::REFUSED);
  pushed.clear_hello();
  pushed.mutable_stream()->set_rank(2);
  v1::DefineShape& shape = *pushed.add_shape();
  shape.set_id(v1::kMaxShapes + 1);
  shape.add_keys("loss");
  pushed.set_passed_step(5);
  home_.receiver->Handle(request, [&](v1::PushReply reply) { result = reply.stream(0).result(); });
  EXPECT_EQ(result, v1::PushedAnswer::REFUSED);
  home_.Kill();
  home_.Start();
  Log(5, 5);
  Pass(absl::Seconds(3));
  ExpectAllJoined(6);
}

}  // namespace
}  // namespace ranklog::peer
