// How sessions become jobs, runs and streams.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/base/this_boot.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

using model::RunState;
using model::StreamState;
using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::Dense;
using ::ranklog::testing::Keys;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AttachTest : public StoreTest {
 protected:
  model::Run TheRun() {
    auto runs = reader_->Runs();
    EXPECT_OK(runs);
    EXPECT_THAT(*runs, SizeIs(1));
    return runs->at(0);
  }
  void PutDelivery(int64_t run, const std::string& kind) {
    model::Delivery delivery;
    delivery.run = run;
    delivery.kind = kind;
    delivery.complete = true;
    EXPECT_OK(store_->PutDelivery(delivery));
  }
};

TEST_F(AttachTest, CreatesJobRunAndStream) {
  model::Stream made;
  Do([&] { made = Attach(0); });
  ASSERT_OK_AND_ASSIGN(const model::Stream stream, StoredStream(*reader_, made.id));
  EXPECT_EQ(stream.key, SessionOf(0).stream);
  EXPECT_TRUE(stream.primary);
  EXPECT_EQ(stream.identity.node, "node-a");
  EXPECT_EQ(stream.identity.pid, 4000);
  EXPECT_EQ(stream.identity.world_size, 4);
  EXPECT_EQ(stream.durable_seq, 0);
  EXPECT_EQ(stream.passed_step, -1);
  EXPECT_EQ(stream.state, StreamState::kLive);
  EXPECT_EQ(stream.started_us, 1000);
  const model::Run run = TheRun();
  EXPECT_EQ(run.id, made.run);
  EXPECT_EQ(run.run_id, "job");
  EXPECT_EQ(run.project, "gpt");
  EXPECT_EQ(run.settings.group, "group");
  EXPECT_EQ(run.state, RunState::kRunning);
  EXPECT_EQ(run.rows, 0);
  EXPECT_EQ(run.last_step, -1);
}

TEST_F(AttachTest, FindsTheStreamThatItKnows) {
  Do([&] {
    const model::Stream stream = Attach(0);
    ASSERT_OK(store_->DefineShape(stream.id, 1, ranklog::testing::Keys(1)));
    ASSERT_OK(store_->Append(stream.id, Dense(1, 5, 1, 1)));
  });
  Reopen();
  Do([&] {
    const model::Stream again = Attach(0);
    EXPECT_EQ(again.id, 1);
    EXPECT_EQ(again.durable_seq, 5);
    EXPECT_NE(Attach(0, /*incarnation=*/8).id, again.id);
    EXPECT_NE(Attach(1).id, again.id);
  });
  EXPECT_THAT(reader_->Streams(1), ::ranklog::testing::IsOkAndHolds(SizeIs(3)));
}

TEST_F(AttachTest, CountsTheAttemptsOfARun) {
  const auto attach = [this](uint32_t rank, uint64_t incarnation, int64_t init_us) {
    model::Session session = SessionOf(rank, incarnation);
    session.settings.start_time_us = init_us;
    return store_->Attach(session, AssignmentOf("job", rank == 0), now_us_++).value();
  };
  const auto end = [this](const model::Stream& stream) {
    EXPECT_OK(store_->EndStream(stream.id, StreamState::kCrashed, 0, "gone", now_us_++));
  };
  Do([&] {
    const model::Stream first = attach(0, 1, 100);
    EXPECT_EQ(first.attempt, 1u);
    end(first);
    EXPECT_EQ(attach(0, 2, 100).attempt, 1u) << "another ring of the same process";
    end(attach(0, 2, 100));
    const model::Stream other = attach(1, 1, 100);
    EXPECT_EQ(other.attempt, 1u) << "it comes late";
    end(other);
    const model::Stream again = attach(1, 2, 200);
    EXPECT_EQ(again.attempt, 2u) << "before the primary";
    EXPECT_FALSE(again.began_anew);
    EXPECT_EQ(attach(0, 3, 200).attempt, 2u);
    EXPECT_EQ(attach(0, 4, 300).attempt, 2u) << "beside a live one";
    end(again);
    const model::Stream alone = attach(1, 3, 300);
    EXPECT_EQ(alone.attempt, 2u);
    EXPECT_TRUE(alone.began_anew);
    // Rings of dead processes that are found now, after later processes of their rank.
    model::Session left = SessionOf(0, 9);
    left.left = true;
    for (const auto& [init_us, attempt] : {std::pair(150, 1u), std::pair(50, 0u)}) {
      left.settings.start_time_us = init_us;
      ++left.stream.incarnation;
      const auto stream = store_->Attach(left, AssignmentOf("job", true), now_us_++);
      ASSERT_OK(stream);
      EXPECT_EQ(stream->attempt, attempt) << init_us;
      end(*stream);
    }
  });
}

// These rings are found after a later process of their rank has attached. Within a boot, the clock
// of the boot orders the processes. Between two boots, the wall clock does, except that the current
// boot is the last.
TEST_F(AttachTest, WallClockDoesNotOrderAttempts) {
  const std::string& this_boot = ThisBoot();
  struct Case {
    const char* what;
    std::string boot;  // of the attached process, whose wall clock is 500 and boot clock is 70
    std::string left_boot;
    int64_t left_init_us;
    int64_t left_began_us;
    uint32_t attempt;  // of the ring that was left: 4 follows the attached process, 2 precedes it
  };
  const Case cases[] = {
      {"set back between the two", "a", "a", 400, 80, 4},
      {"set forward between the two", "a", "a", 600, 60, 2},
      {"of another boot before", "a", "b", 400, 80, 2},
      {"of another boot after", "a", "b", 600, 60, 4},
      {"of this boot after", "a", this_boot, 400, 60, 4},
      {"of another boot before this one", this_boot, "a", 600, 80, 2},
      {"unknown and before", "", "", 400, 0, 2},
      {"unknown and after", "", "", 600, 0, 4},
  };
  ASSERT_FALSE(this_boot.empty());
  uint32_t rank = 0;
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    model::Session session = SessionOf(++rank);
    const auto attach = [&] {
      ++session.stream.incarnation;
      const RunAssignment assignment = AssignmentOf(absl::StrCat("job-", rank), true);
      return store_->Attach(session, assignment, now_us_++);
    };
    const auto end = [&](int64_t stream) {
      ASSERT_OK(store_->EndStream(stream, StreamState::kCrashed, 0, "gone", now_us_++));
    };
    Do([&] {
      session.identity.boot_id = each.boot;
      session.identity.began_us = each.boot.empty() ? 0 : 70;
      session.settings.start_time_us = 500;
      const auto here = attach();
      ASSERT_OK(here);
      ASSERT_OK(store_->SetAttempt(here->id, 3, false));
      end(here->id);
      session.identity.boot_id = each.left_boot;
      session.identity.began_us = each.left_began_us;
      session.settings.start_time_us = each.left_init_us;
      session.left = true;
      const auto left = attach();
      ASSERT_OK(left);
      EXPECT_EQ(left->attempt, each.attempt);
      EXPECT_EQ(left->identity.boot_id, each.left_boot);
      EXPECT_EQ(left->identity.began_us, each.left_began_us);
      end(left->id);
    });
  }
}

// Rank 1 of the next start attaches before its rank 0, while rank 1 of the last start is alive.
TEST_F(AttachTest, RankOfNextStartBeginsAttempt) {
  const auto attach = [this](uint32_t rank, uint64_t incarnation, const std::string& launch) {
    model::Session session = SessionOf(rank, incarnation);
    session.launch.id = launch;
    session.launch.given_id = session.stream.job_id;
    session.launch.process = absl::StrCat(launch, "/", rank);
    session.settings.start_time_us = launch == "first" ? 100 : 200;
    return store_->Attach(session, AssignmentOf("job", rank == 0), now_us_++).value();
  };
  Do([&] {
    const model::Stream primary = attach(0, 1, "first");
    EXPECT_EQ(attach(1, 1, "first").attempt, 1u);
    EXPECT_OK(store_->EndStream(primary.id, StreamState::kCrashed, 0, "gone", now_us_++));
    EXPECT_EQ(attach(2, 1, "first").attempt, 1u) << "it comes late";
    EXPECT_EQ(attach(1, 2, "second").attempt, 2u);
    EXPECT_EQ(attach(3, 1, "second").attempt, 2u) << "the last start had no such rank";
    EXPECT_EQ(attach(0, 2, "second").attempt, 2u);
  });
}

// A store that is gone acknowledged the rank's earlier rows.
TEST_F(AttachTest, NewStreamCountsLostStoreRows) {
  model::Session session = SessionOf(0);
  session.first_seq = 8;
  Do([&] {
    const auto stream = store_->Attach(session, AssignmentOf("job", true), 1000);
    ASSERT_OK(stream);
    EXPECT_EQ(stream->durable_seq, 7);
    EXPECT_EQ(stream->aggregated_seq, 7);
    ASSERT_OK(store_->DefineShape(stream->id, 1, ranklog::testing::Keys(1)));
    EXPECT_THAT(store_->Append(stream->id, Dense(8, 2, 1, 1)), ::ranklog::testing::IsOkAndHolds(9));
    EXPECT_OK(store_->SetLosses(stream->id, {.invalid = 2}));
  });
  EXPECT_EQ(StoredStream(*reader_, 1)->losses.with_store, 7);
  EXPECT_EQ(StoredStream(*reader_, 1)->losses.invalid, 2);
  session.first_seq = 10;
  Do([&] {
    const auto again = store_->Attach(session, AssignmentOf("job", true), 2000);
    ASSERT_OK(again);
    EXPECT_EQ(again->durable_seq, 9) << "a stream that is known goes on where it was";
    EXPECT_EQ(again->losses.with_store, 7);
  });
}

// The rank's rows in between were acknowledged by a store of which this one is an older copy.
TEST_F(AttachTest, KnownStreamSkipsLostStoreRows) {
  model::Session session = SessionOf(0);
  for (const model::StreamState state : {model::StreamState::kLive, model::StreamState::kCrashed}) {
    ++session.stream.incarnation;
    session.first_seq = 1;
    int64_t id = 0;
    Do([&] {
      id = store_->Attach(session, AssignmentOf("job", true), 1000)->id;
      ASSERT_OK(store_->DefineShape(id, 1, ranklog::testing::Keys(1)));
      ASSERT_OK(store_->Append(id, Dense(1, 5, 1, 1)));
      if (state != model::StreamState::kLive) {
        ASSERT_OK(store_->EndStream(id, state, 0, "gone", 2000));
      }
    });
    session.first_seq = 6;
    Do([&] {
      EXPECT_EQ(store_->Attach(session, AssignmentOf("job", true), 3000)->losses.with_store, 0);
    });
    session.first_seq = 9;
    Do([&] {
      const auto again = store_->Attach(session, AssignmentOf("job", true), 3000);
      ASSERT_OK(again);
      EXPECT_EQ(again->state, model::StreamState::kLive);
      EXPECT_EQ(again->durable_seq, 8);
      EXPECT_EQ(again->losses.with_store, 3);
      EXPECT_THAT(store_->Append(id, Dense(9, 2, 1, 1)), ::ranklog::testing::IsOkAndHolds(10));
    });
    session.first_seq = 12;
    Do([&] {
      const auto again = store_->Attach(session, AssignmentOf("job", true), 3000);
      ASSERT_OK(again);
      EXPECT_EQ(again->durable_seq, 11) << "a gap of one row";
      EXPECT_EQ(again->losses.with_store, 4);
      EXPECT_THAT(store_->Append(id, Dense(12, 1, 1, 1)), ::ranklog::testing::IsOkAndHolds(12));
    });
  }
}

TEST_F(AttachTest, KeepsIncarnationWithHighestBit) {
  Do([&] { Attach(0, ~uint64_t{0}); });
  EXPECT_EQ(StoredStream(*reader_, 1)->key.incarnation, ~uint64_t{0});
  Do([&] { EXPECT_EQ(Attach(0, ~uint64_t{0}).id, 1); });
}

// The start time stays that of the first rank that attached.
TEST_F(AttachTest, TakesLowestRanksSettings) {
  Do([&] { Attach(2); });
  EXPECT_EQ(TheRun().settings.name, "name-2");
  Do([&] { Attach(3); });
  EXPECT_EQ(TheRun().settings.name, "name-2");
  Do([&] { Attach(0); });
  EXPECT_EQ(TheRun().settings.name, "name-0");
  EXPECT_EQ(TheRun().settings.start_time_us, 102);
  model::Session resumed = SessionOf(0, 9);
  resumed.settings.name = "resumed";
  Do([&] { EXPECT_OK(store_->Attach(resumed, AssignmentOf("job"), 5000)); });
  EXPECT_EQ(TheRun().settings.name, "resumed");
  EXPECT_EQ(TheRun().settings.start_time_us, 102);
  EXPECT_EQ(TheRun().started_us, 1000);
}

// After an elastic restart, rank 0 may be on another node, and this node may have only higher ranks.
TEST_F(AttachTest, TakesHomeFromLastSession) {
  const auto attach = [&](uint32_t rank, uint64_t incarnation, const std::string& home) {
    model::Session session = SessionOf(rank, incarnation);
    session.settings.home = home;
    session.settings.name = "name-" + std::to_string(rank);
    Do([&] { EXPECT_OK(store_->Attach(session, AssignmentOf("job"), 1)); });
  };
  attach(2, 1, "node1");
  EXPECT_EQ(TheRun().settings.home, "node1");
  attach(5, 2, "node7");
  EXPECT_EQ(TheRun().settings.home, "node7");
  EXPECT_EQ(TheRun().settings.name, "name-2");
  attach(2, 3, "");
  EXPECT_EQ(TheRun().settings.home, "node7") << "an unknown home replaces none";
  attach(1, 4, "node3");
  EXPECT_EQ(TheRun().settings.home, "node3");
  EXPECT_EQ(TheRun().settings.name, "name-1");
}

TEST_F(AttachTest, TakesRunNameFromPrimarySession) {
  RunAssignment assignment = AssignmentOf("job", /*primary=*/false);
  assignment.local_only = true;
  assignment.name = "of rank 1";
  Do([&] { EXPECT_OK(store_->Attach(SessionOf(1), assignment, 1)); });
  assignment.primary = true;
  assignment.local_only = false;
  assignment.name = "of rank 0";
  Do([&] { EXPECT_OK(store_->Attach(SessionOf(0), assignment, 2)); });
  assignment.primary = false;
  assignment.name = "of rank 2";
  Do([&] { EXPECT_OK(store_->Attach(SessionOf(2), assignment, 3)); });
  EXPECT_EQ(TheRun().name, "of rank 0");
  EXPECT_FALSE(TheRun().local_only);
}

RunAssignment PendingRun() {
  RunAssignment assignment = AssignmentOf("job-3-pending", /*primary=*/false);
  assignment.primary_chosen = false;
  return assignment;
}

TEST_F(AttachTest, PendingRunGetsAPrimary) {
  model::Stream of[2];
  Do([&] {
    for (uint32_t rank : {3, 1}) {
      model::Stream& stream = of[rank / 2];
      ASSERT_OK_AND_ASSIGN(stream, store_->Attach(SessionOf(rank), PendingRun(), 1));
      EXPECT_OK(store_->DefineShape(stream.id, 1, Keys(2)));
      EXPECT_OK(store_->Append(stream.id, Dense(1, 5, 1, 2)));
    }
  });
  EXPECT_FALSE(TheRun().primary_chosen);
  EXPECT_THAT(BatchesOf(of[0].id), SizeIs(1));
  RunAssignment assignment = AssignmentOf("job-1");
  assignment.primary_rank = 1;
  Do([&] {
    ASSERT_OK_AND_ASSIGN(const bool chosen, store_->ChoosePrimary(of[0].run, assignment));
    EXPECT_TRUE(chosen);
    for (const model::Stream& stream : of) {
      EXPECT_OK(store_->DefineShape(stream.id, 1, Keys(2))) << "the same again";
      EXPECT_OK(store_->Append(stream.id, Dense(6, 5, 1, 2)));
    }
  });
  EXPECT_TRUE(TheRun().primary_chosen);
  EXPECT_EQ(TheRun().run_id, "job-1");
  EXPECT_EQ(TheRun().primary_rank, 1u);
  EXPECT_TRUE(StoredStream(*reader_, of[0].id)->primary);
  EXPECT_FALSE(StoredStream(*reader_, of[1].id)->primary);
  for (const model::Stream& stream : of) EXPECT_THAT(BatchesOf(stream.id), SizeIs(2));
  EXPECT_OK(reader_->Check());

  assignment.run_id = "job-0";
  Do([&] {
    ASSERT_OK_AND_ASSIGN(const bool chosen, store_->ChoosePrimary(of[0].run, assignment));
    EXPECT_FALSE(chosen) << "for good";
  });
  EXPECT_EQ(TheRun().run_id, "job-1");
}

TEST_F(AttachTest, FirstRankNamesPendingRun) {
  Do([&] { EXPECT_OK(store_->Attach(SessionOf(3), PendingRun(), 1)); });
  RunAssignment assignment = AssignmentOf("job");
  assignment.name = "given";
  assignment.run = TheRun().id;
  Do([&] { EXPECT_OK(store_->Attach(SessionOf(0), assignment, 2)); });
  EXPECT_EQ(TheRun().run_id, "job");
  EXPECT_EQ(TheRun().name, "given");
  EXPECT_TRUE(TheRun().primary_chosen);
  EXPECT_THAT(*reader_->Streams(TheRun().id), SizeIs(2));
}

TEST_F(AttachTest, TakenIdGetsANumber) {
  Do([&] { Attach(0); });
  Do([&] {
    ASSERT_OK_AND_ASSIGN(const model::Stream stream, store_->Attach(SessionOf(3), PendingRun(), 1));
    EXPECT_OK(store_->ChoosePrimary(stream.run, AssignmentOf("job")));
  });
  EXPECT_EQ(reader_->Runs()->at(0).run_id, "job-2");
}

TEST_F(AttachTest, OtherJobsIdAlsoNumbersName) {
  Do([&] {
    ASSERT_OK(store_->Attach(SessionOf(0, 7, "other"), AssignmentOf("job-3"), 1));
    ASSERT_OK_AND_ASSIGN(const model::Stream stream, store_->Attach(SessionOf(3), PendingRun(), 1));
    EXPECT_OK(store_->ChoosePrimary(stream.run, AssignmentOf("job-3")));
    ASSERT_OK(store_->Attach(SessionOf(3, 8), AssignmentOf("job-3"), 1));
  });
  ASSERT_OK_AND_ASSIGN(const std::vector<model::Run> runs, reader_->Runs());
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_EQ(runs[0].run_id, "job-3-2");
  EXPECT_EQ(runs[0].name, "job-3-2");
}

TEST_F(AttachTest, ListsJobsRunsForSession) {
  Do([&] {
    Attach(0);
    Attach(2);
    const model::Stream ended = Attach(3, /*incarnation=*/7, "job-3");
    EXPECT_OK(store_->EndStream(ended.id, StreamState::kCrashed, 0, "gone", 2000));
    EXPECT_OK(store_->CloseRun(ended.run, RunState::kCrashed, 0, "gone", 2000));
    EXPECT_OK(store_->Attach(SessionOf(3, 7, "another job"), AssignmentOf("job"), 1));
    ASSERT_OK_AND_ASSIGN(const std::vector<model::JobRun> runs,
                         store_->RunsOfJob(SessionOf(3, /*incarnation=*/8)));
    ASSERT_THAT(runs, SizeIs(2));
    EXPECT_EQ(runs[0].run_id, "job");
    EXPECT_EQ(runs[0].ranks, 2u);
    EXPECT_TRUE(runs[0].live);
    EXPECT_FALSE(runs[0].has_rank);
    EXPECT_EQ(runs[1].lowest_rank, 3u);
    EXPECT_FALSE(runs[1].live);
    EXPECT_TRUE(runs[1].has_place);
    EXPECT_FALSE(runs[1].has_ring);
    model::Session elsewhere = SessionOf(3, 7);
    elsewhere.identity.node = "node-b";
    ASSERT_OK_AND_ASSIGN(const std::vector<model::JobRun> others, store_->RunsOfJob(elsewhere));
    EXPECT_EQ(others[0].ranks, 0u);
    EXPECT_FALSE(others[0].live);
    EXPECT_FALSE(others[1].has_place);
    EXPECT_TRUE(others[1].has_ring);
  });
}

// The delivery read the run before it was continued, and reports its result afterwards.
TEST_F(AttachTest, ReopenedRunIsNotDelivered) {
  model::Stream stream;
  Do([&] {
    stream = Attach(0);
    EXPECT_OK(store_->EndStream(stream.id, StreamState::kFinished, 0, "", 2000));
    EXPECT_OK(store_->CloseRun(stream.run, RunState::kFinished, 0, "", 2000));
    stream = Attach(0, /*incarnation=*/8);
    PutDelivery(stream.run, "wandb");
  });
  EXPECT_THAT(*reader_->PendingDeliveries(), SizeIs(1));
  Do([&] {  // nor after its second end, with one more row
    EXPECT_OK(store_->DefineRunShape(stream.run, 1, Keys(1)));
    EXPECT_OK(store_->AppendRunRows(stream.run, Dense(0, 1, 1, 1)));
    EXPECT_OK(store_->EndStream(stream.id, StreamState::kFinished, 0, "", 3000));
    EXPECT_OK(store_->CloseRun(stream.run, RunState::kFinished, 0, "", 3000));
    PutDelivery(stream.run, "wandb");
  });
  EXPECT_THAT(*reader_->PendingDeliveries(), SizeIs(1));
  EXPECT_THAT(*reader_->Removable(4000), IsEmpty());
}

TEST_F(AttachTest, NewStreamReopensTheRun) {
  Do([&] {
    const model::Stream stream = Attach(0);
    EXPECT_OK(store_->EndStream(stream.id, StreamState::kFinished, 1, "", 2000));
    EXPECT_OK(store_->CloseRun(stream.run, RunState::kFailed, 1, "bad", 2000));
    PutDelivery(stream.run, "wandb");
    PutDelivery(stream.run, "local");
  });
  EXPECT_THAT(*reader_->LiveStreams(), IsEmpty());
  EXPECT_THAT(*reader_->PendingDeliveries(), IsEmpty());
  Do([&] { Attach(0, /*incarnation=*/8); });
  const model::Run run = TheRun();
  EXPECT_EQ(run.state, RunState::kRunning);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.reason, "");
  EXPECT_EQ(run.ended_us, 0);
  EXPECT_THAT(*reader_->LiveStreams(), SizeIs(2));
  ASSERT_THAT(*reader_->PendingDeliveries(), SizeIs(1));
  EXPECT_EQ(reader_->PendingDeliveries()->at(0).kind, "wandb");
}

TEST_F(AttachTest, LiveStreamExplainsMissingRingFile) {
  model::Session session = SessionOf(0, 7);
  session.unnamed = "no room";
  for (const StreamState ends : {StreamState::kCrashed, StreamState::kFinished}) {
    Do([&] {
      const auto stream = store_->Attach(session, AssignmentOf("job", true), now_us_);
      ASSERT_OK(stream);
      EXPECT_EQ(stream->reason, "no room");
      EXPECT_OK(store_->EndStream(stream->id, ends, 0, "", 2000));
    });
    EXPECT_EQ(reader_->Streams(TheRun().id)->at(0).reason, "");
  }
}

TEST_F(AttachTest, ReattachReopensACrashedStream) {
  Do([&] {
    const model::Stream stream = Attach(0);
    EXPECT_OK(store_->EndStream(stream.id, StreamState::kCrashed, 0, "gone", 2000));
    EXPECT_OK(store_->CloseRun(stream.run, RunState::kCrashed, 0, "gone", 2000));
  });
  Do([&] {
    const model::Stream stream = Attach(0);
    EXPECT_EQ(stream.state, StreamState::kLive);
    EXPECT_EQ(stream.reason, "");
    EXPECT_EQ(stream.ended_us, 0);
  });
  EXPECT_EQ(TheRun().state, RunState::kRunning);
}

// The answer to a Finish was lost, so the rank attaches and finishes again. The second attach must
// not reopen the run that the first Finish closed.
TEST_F(AttachTest, LeavesFinishedStreamAndRunAlone) {
  Do([&] {
    const model::Stream stream = Attach(0);
    EXPECT_OK(store_->EndStream(stream.id, StreamState::kFinished, 0, "", 2000));
    EXPECT_OK(store_->CloseRun(stream.run, RunState::kFinished, 0, "", 2000));
  });
  Do([&] { EXPECT_EQ(Attach(0).state, StreamState::kFinished); });
  EXPECT_EQ(TheRun().state, RunState::kFinished);
  EXPECT_EQ(TheRun().ended_us, 2000);
}

}  // namespace
}  // namespace ranklog::storage
