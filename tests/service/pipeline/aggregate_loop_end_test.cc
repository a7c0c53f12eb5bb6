// When and how a run ends, and when it continues.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/service/pipeline/aggregate_loop_fixture.h"

namespace ranklog::pipeline {
namespace {

using model::RunState;
using model::StreamState;
using ::testing::ElementsAre;

TEST_F(AggregateLoopTest, RunClosesAfterLastLocalRank) {
  const int64_t first = Attach(0);
  Log(first, 0, 3, 1);
  End(first);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kRunning);  // rank 1 may still attach
  const int64_t second = Attach(1);
  Log(second, 0, 3, 1);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kRunning);
  End(second);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  EXPECT_EQ(StoredRun().ended_us, clock_us_ - 1);
  EXPECT_EQ(loop_->counters().live_runs, 0u);
}

TEST_F(AggregateLoopTest, WaitForMissingRanksIsBounded) {
  const int64_t first = Attach(0);
  Log(first, 0, 3, 1);
  End(first);
  Settle();
  EXPECT_EQ(loop_->Step(), absl::Seconds(5));
  now_ += absl::Seconds(5);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3));
}

// Ranks that run one after the other, for example each in its own container.
TEST_F(AggregateLoopTest, EachAttemptWaitsForItsRanks) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  for (const int64_t stream : {first, second}) {
    Log(stream, 0, 3, 1);
    End(stream);
  }
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  const int64_t resumed = Attach(0, /*incarnation=*/2);
  Log(resumed, 0, 3, 1);  // without given steps, so the steps continue
  End(resumed);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kRunning) << "rank 1 may still come";
  const int64_t other = Attach(1, /*incarnation=*/2);
  Log(other, 0, 3, 1);
  End(other);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  EXPECT_EQ(StoredRun().late_rows, 0u);
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(AggregateLoopTest, AllStrategyEndsRunWithRank) {
  strategy_ = model::LogStrategy::kAll;
  const int64_t first = Attach(0);
  Log(first, 0, 3, 1);
  End(first);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

TEST_F(AggregateLoopTest, CrashOverridesPrimaryExitCode) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  End(second, StreamState::kCrashed, 0, "killed by signal 9");
  End(first, StreamState::kFinished, 3);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kCrashed);
  EXPECT_EQ(StoredRun().reason, "killed by signal 9");
  EXPECT_EQ(StoredRun().exit_code, 1);
}

TEST_F(AggregateLoopTest, AnyRanksExitCodeFailsRun) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  End(first);
  End(second, StreamState::kFinished, 7);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFailed);
  EXPECT_EQ(StoredRun().exit_code, 7);
}

TEST_F(AggregateLoopTest, RestartedRankIsNotACrash) {
  local_world_size_ = 1;
  const int64_t first = Attach(0);
  Log(first, 0, 5, 0);
  End(first, StreamState::kCrashed, 0, "gone");
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kCrashed);
  const int64_t again = Attach(0, /*incarnation=*/2);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kRunning);
  Log(again, 4, 8, 100, /*commits=*/false);
  End(again);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(StoredStream(*Reader(), again)->replayed_rows, 2u);
  EXPECT_EQ(StoredRun().replays, 2u);
  EXPECT_EQ(StoredRun().late_rows, 0u);
}

// The launcher restarts the job with one rank less.
TEST_F(AggregateLoopTest, RankThatTheJobNoLongerHasDoesNotCount) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  Log(first, 0, 5, 0);
  End(second, StreamState::kCrashed, 0, "gone");
  End(first, StreamState::kFinished, 1);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kCrashed);
  world_size_ = local_world_size_ = 1;
  const int64_t again = Attach(0, /*incarnation=*/2);
  Log(again, 5, 8, 0);
  End(again);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

// Found by the simulation: two rings of one dead process were found one after the other. Each
// seemed to have begun after the other had ended.
TEST_F(AggregateLoopTest, SecondRingIsNotARestart) {
  local_world_size_ = 1;
  const int64_t first = Attach(0, /*incarnation=*/1, /*init_us=*/7);
  End(first, StreamState::kFinished, 3);
  const int64_t second = Attach(0, /*incarnation=*/2, /*init_us=*/7);
  End(second, StreamState::kFinished, 0);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFailed);
  EXPECT_EQ(StoredRun().exit_code, 3);
}

TEST_F(AggregateLoopTest, NewProcessRestartsEachRing) {
  local_world_size_ = 1;
  const int64_t first = Attach(0, /*incarnation=*/1, /*init_us=*/7);
  const int64_t second = Attach(0, /*incarnation=*/2, /*init_us=*/7);
  End(first, StreamState::kCrashed, 0, "gone");
  End(second, StreamState::kCrashed, 0, "gone");
  const int64_t again = Attach(0, /*incarnation=*/3, /*init_us=*/8);
  End(again);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

// Found by the simulation: the daemon had never met the first process, which left its ring.
TEST_F(AggregateLoopTest, LateFoundCrashKeepsRunFinished) {
  local_world_size_ = 1;
  const int64_t second = Attach(0, /*incarnation=*/2, /*init_us=*/8);
  End(second);
  Settle();
  const int64_t first = Attach(0, /*incarnation=*/1, /*init_us=*/7, /*left=*/true);
  End(first, StreamState::kCrashed, 0, "gone");
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

// Found by the simulation.
TEST_F(AggregateLoopTest, RestartCountsDespiteClockSetBack) {
  local_world_size_ = 1;
  const int64_t first = Attach(0);
  End(first, StreamState::kCrashed, 0, "gone");
  clock_us_ -= int64_t{24} * 3600 * 1'000'000;
  const int64_t again = Attach(0, /*incarnation=*/2);
  End(again);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

TEST_F(AggregateLoopTest, ClockSetBackIsNoRestart) {
  local_world_size_ = 1;
  const int64_t parent = Attach(0);
  const int64_t other = Attach(0, /*incarnation=*/2);  // at the same time
  clock_us_ -= int64_t{24} * 3600 * 1'000'000;
  End(parent, StreamState::kCrashed, 0, "gone");
  End(other);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kCrashed);
}

// The store is an older copy. The rows in between went with another store, and the rank logged none
// after them.
TEST_F(AggregateLoopTest, LostRowsDoNotBlockRun) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  Log(first, 0, 5, 0);
  Settle();  // waits for the second rank
  for (const int64_t stream : {first, second}) {
    Write([&](storage::Store& store) { return store.SkipTo(stream, 20); });
    loop_->Notify(kRun);
    Settle();
  }
  End(second);
  Settle();
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(StoredStream(*Reader(), first)->aggregated_seq, 20u);
  End(first);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  EXPECT_EQ(StoredRun().late_rows, 0u);
}

TEST_F(AggregateLoopTest, AttachDuringCloseKeepsRunOpen) {
  local_world_size_ = 1;
  const int64_t first = Attach(0);
  Log(first, 0, 1, 0);
  End(first);
  // The attach is committed after the loop's check, and before the loop's write is applied.
  absl::Notification may_go_on;
  Submit([&](storage::Store&) {
    may_go_on.WaitForNotification();
    return absl::OkStatus();
  });
  model::Session session;
  session.stream = {"project", "job", 0, 2};
  session.identity.local_world_size = 1;
  model::RunAssignment assignment;
  assignment.run_id = "job";
  assignment.primary = true;
  int64_t again = 0;
  Submit([&](storage::Store& store) -> absl::Status {
    const auto stream = store.Attach(session, assignment, clock_us_++);
    again = stream->id;
    return stream.status();
  });
  loop_->Step();
  may_go_on.Notify();
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kRunning);
  EXPECT_THAT(Steps(), ElementsAre(0, 1));
  End(again);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

TEST_F(AggregateLoopTest, NotifyLeavesClosedRunAlone) {
  local_world_size_ = 1;
  const int64_t first = Attach(0);
  End(first);
  Settle();
  const int before = told();
  loop_->Notify(kRun);
  Settle();
  EXPECT_EQ(told(), before);
  EXPECT_EQ(loop_->counters().live_runs, 0u);
}

TEST_F(AggregateLoopTest, RunWithoutPrimaryClosesAllStreams) {
  options_.max_open_values = 1000;
  options_.run.chunk_bytes = 4096;
  loop_ = MakeLoop();
  const int64_t second = Attach(1);
  Log(second, 0, 9999, 1);
  End(second, StreamState::kCrashed, 0, "gone");
  Settle();
  now_ += absl::Seconds(5);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kCrashed);
  EXPECT_EQ(StoredStream(*Reader(), second)->aggregated_seq, 10000u);
}

}  // namespace
}  // namespace ranklog::pipeline
