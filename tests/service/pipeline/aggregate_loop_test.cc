#include "service/pipeline/aggregate_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/aggregate/rows.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::pipeline {
namespace {

using aggregate::BatchOf;
using aggregate::RankRow;
using model::RunState;
using model::StreamState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kNowUs = 1'700'000'000'000'000;

// One job of up to two ranks on one node, with the real store below.
class AggregateLoopTest : public ::testing::Test {
 protected:
  AggregateLoopTest() { Restart(); }

  void Restart() {
    loop_.reset();
    store_.reset();
    auto store = storage::Store::Open(dir_.path(), {});
    EXPECT_OK(store);
    store_ = std::make_unique<StoreLoop>(
        *std::move(store), StoreLoop::Options{.commit_interval = absl::Milliseconds(1)});
    loop_ = MakeLoop();
  }
  std::unique_ptr<AggregateLoop> MakeLoop() {
    return std::make_unique<AggregateLoop>(
        store_.get(), Reader(), [this] { return now_; },
        [this](int64_t run) {
          absl::MutexLock lock(&mutex_);
          told_[run]++;
        },
        options_);
  }
  std::unique_ptr<storage::StoreReader> Reader() {
    auto reader = storage::StoreReader::Open(dir_.path());
    EXPECT_OK(reader);
    return *std::move(reader);
  }
  void Write(absl::AnyInvocable<absl::Status(storage::Store&)> apply) {
    EXPECT_OK(store_->SubmitAndWait(std::move(apply)));
  }
  void Submit(absl::AnyInvocable<absl::Status(storage::Store&)> apply) {
    StoreLoop::Write write;
    write.apply = std::move(apply);
    store_->Submit(std::move(write));
  }
  // Attaches a rank to run 1 and returns its stream's id.
  int64_t Attach(uint32_t rank, uint64_t incarnation = 1) {
    model::Session session;
    session.stream = {"project", "job", rank, incarnation};
    session.settings.strategy = strategy_;
    session.settings.rank_statistics = {"mean"};
    session.identity.local_rank = rank;
    session.identity.world_size = 2;
    session.identity.local_world_size = local_world_size_;
    model::RunAssignment assignment;
    assignment.run_id = "job";
    assignment.primary = rank == 0;
    int64_t id = 0;
    Write([&](storage::Store& store) -> absl::Status {
      const auto stream = store.Attach(session, assignment, clock_us_++);
      if (!stream.ok()) return stream.status();
      id = stream->id;
      return store.DefineShape(id, 1, {"loss"});
    });
    loop_->Notify(kRun);
    return id;
  }
  // Rows of one loss per step, from `from` to `to`.
  void Log(int64_t stream, int64_t from, int64_t to, double loss) {
    std::vector<RankRow> rows;
    for (int64_t step = from; step <= to; ++step) {
      rows.push_back({.step = step, .values = {loss + static_cast<double>(step)}, .commits = true});
    }
    const uint64_t first = logged_[stream] + 1;
    logged_[stream] += rows.size();
    Write(
        [&](storage::Store& store) { return store.Append(stream, BatchOf(first, rows)).status(); });
    loop_->Notify(kRun);
  }
  void End(int64_t stream, StreamState state = StreamState::kFinished, int exit_code = 0,
           const char* reason = "") {
    Write([&](storage::Store& store) {
      return store.EndStream(stream, state, exit_code, reason, clock_us_++);
    });
    loop_->Notify(kRun);
  }
  // Steps until nothing has come of several, each after the writes of the one before.
  void Settle() {
    int rests = 0;
    for (int i = 0; i < 2000 && rests < 3; ++i) {
      rests = loop_->Step() >= absl::Seconds(1) ? rests + 1 : 0;
      Write([](storage::Store&) { return absl::OkStatus(); });
    }
    EXPECT_EQ(rests, 3) << "the loop never comes to rest";
  }
  model::Run StoredRun() {
    auto run = Reader()->GetRun(kRun);
    EXPECT_OK(run);
    return *std::move(run);
  }
  std::vector<aggregate::RunRow> Rows() {
    auto reader = Reader();
    aggregate::StoredRun stored;
    aggregate::Aggregated result;
    auto shapes = reader->RunShapes(kRun);
    auto batches = reader->RunBatches(kRun, 0, 1 << 30);
    EXPECT_OK(shapes);
    EXPECT_OK(batches);
    stored.shapes = *shapes;
    for (storage::StoredBatch& batch : *batches) result.batches.push_back(std::move(batch.batch));
    EXPECT_TRUE(stored.Store(result));
    return stored.rows;
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const aggregate::RunRow& row : Rows()) steps.push_back(row.step);
    return steps;
  }
  int told() {
    absl::MutexLock lock(&mutex_);
    return told_[kRun];
  }

  static constexpr int64_t kRun = 1;
  testing::TempDir dir_;
  model::LogStrategy strategy_ = model::LogStrategy::kMain;
  uint32_t local_world_size_ = 2;
  AggregateLoop::Options options_;
  absl::Time now_ = absl::FromUnixSeconds(5000);
  int64_t clock_us_ = kNowUs;
  std::map<int64_t, uint64_t> logged_;
  absl::Mutex mutex_;
  std::map<int64_t, int> told_;
  std::unique_ptr<StoreLoop> store_;
  std::unique_ptr<AggregateLoop> loop_;  // before the store loop goes
};

TEST_F(AggregateLoopTest, MakesRowsWithStatisticsAndTells) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  Log(first, 0, 9, 1);
  Log(second, 0, 4, 3);
  Settle();
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(Rows()[2]["loss"], 3);
  EXPECT_EQ(Rows()[2]["rank_mean/loss"], 4);
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(StoredRun().last_step, 4);
  EXPECT_EQ(Reader()->GetStream(first)->aggregated_seq, 5u);
  EXPECT_EQ(loop_->counters().made_rows, 5u);
}

TEST_F(AggregateLoopTest, IsAtRestWhenNothingComes) {
  local_world_size_ = 1;
  EXPECT_EQ(loop_->Step(), absl::InfiniteDuration());
  Log(Attach(0), 0, 9, 1);
  Settle();
  EXPECT_EQ(loop_->Step(), absl::InfiniteDuration());
}

TEST_F(AggregateLoopTest, ClosesTheRunWhenAllLocalRanksHaveEnded) {
  const int64_t first = Attach(0);
  Log(first, 0, 3, 1);
  End(first);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kRunning);  // rank 1 may still come
  const int64_t second = Attach(1);
  Log(second, 0, 3, 1);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kRunning);
  End(second);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  EXPECT_EQ(StoredRun().ended_us, clock_us_ - 1);
  EXPECT_EQ(loop_->counters().live_runs, 0u);
  EXPECT_EQ(loop_->counters().closed_runs, 1u);
}

TEST_F(AggregateLoopTest, WaitsForRanksThatNeverComeOnlySoLong) {
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

TEST_F(AggregateLoopTest, UnderAllARunEndsWithItsRank) {
  strategy_ = model::LogStrategy::kAll;
  const int64_t first = Attach(0);
  Log(first, 0, 3, 1);
  End(first);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

TEST_F(AggregateLoopTest, ACrashIsTheRunsAndThePrimarysExitCodeToo) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  End(second, StreamState::kCrashed, 0, "killed by signal 9");
  End(first, StreamState::kFinished, 3);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kCrashed);
  EXPECT_EQ(StoredRun().reason, "killed by signal 9");
  EXPECT_EQ(StoredRun().exit_code, 1);
}

TEST_F(AggregateLoopTest, AnExitCodeOfAnyRankFailsTheRun) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  End(first);
  End(second, StreamState::kFinished, 7);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFailed);
  EXPECT_EQ(StoredRun().exit_code, 7);
}

TEST_F(AggregateLoopTest, ARankThatBeganAnewIsNotACrash) {
  local_world_size_ = 1;
  const int64_t first = Attach(0);
  Log(first, 0, 5, 0);
  End(first, StreamState::kCrashed, 0, "gone");
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kCrashed);
  const int64_t again = Attach(0, /*incarnation=*/2);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kRunning);
  Log(again, 4, 8, 100);
  End(again);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(Reader()->GetStream(again)->late_rows, 2u);
  EXPECT_EQ(StoredRun().late_rows, 2u);
}

// The simulation found it: with ids in another order than that of their definitions, the rows of
// the smaller one were taken for late, and left out.
TEST_F(AggregateLoopTest, ShapesMayBeDefinedInAnyOrder) {
  local_world_size_ = 1;
  const int64_t stream = Attach(0);
  Write([&](storage::Store& store) { return store.DefineShape(stream, 3, {"acc"}); });
  const auto log = [&](int64_t step, uint32_t shape) {
    const uint64_t seq = ++logged_[stream];
    Write([&](storage::Store& store) {
      return store
          .Append(stream,
                  BatchOf(seq, {{.step = step, .shape = shape, .values = {1}, .commits = true}}))
          .status();
    });
    loop_->Notify(kRun);
    Settle();
  };
  log(0, 3);
  Write([&](storage::Store& store) { return store.DefineShape(stream, 2, {"lr"}); });
  log(1, 2);
  EXPECT_THAT(Steps(), ElementsAre(0, 1));
  EXPECT_EQ(Reader()->GetStream(stream)->late_rows, 0u);
}

// The simulation found it: two rings of one dead process that were found one after the other, each
// seeming to have begun when the other had ended.
TEST_F(AggregateLoopTest, AnotherRingOfADeadProcessIsNoNewBeginning) {
  local_world_size_ = 1;
  const auto attach = [this](uint32_t thread) {
    model::Session session;
    session.stream = {"project", "job", 0, 1 + thread};
    session.identity.local_world_size = 1;
    session.identity.pid = 7;
    session.identity.thread = thread;
    model::RunAssignment assignment;
    assignment.run_id = "job";
    assignment.primary = true;
    int64_t id = 0;
    Write([&](storage::Store& store) -> absl::Status {
      const auto stream = store.Attach(session, assignment, clock_us_);
      if (stream.ok()) id = stream->id;
      return stream.status();
    });
    return id;
  };
  const int64_t first = attach(0);
  End(first, StreamState::kFinished, 3);
  const int64_t second = attach(1);
  End(second, StreamState::kFinished, 0);
  Settle();
  EXPECT_EQ(StoredRun().state, RunState::kFailed);
  EXPECT_EQ(StoredRun().exit_code, 3);
}

TEST_F(AggregateLoopTest, ARankThatComesWhileTheRunIsBeingClosedKeepsItRunning) {
  local_world_size_ = 1;
  const int64_t first = Attach(0);
  Log(first, 0, 1, 0);
  End(first);
  // The attach is committed after the loop has looked, and before its write is applied.
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

TEST_F(AggregateLoopTest, TakesUpWhatWasRunningWhereItWas) {
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  Log(first, 0, 9, 1);
  Log(second, 0, 4, 3);
  Settle();
  Log(second, 5, 9, 3);
  Restart();
  Settle();
  End(first);
  End(second);
  Restart();
  Settle();
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(Rows()[9]["rank_mean/loss"], 11);
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

TEST_F(AggregateLoopTest, AClosedRunIsLeftAloneWhenNotified) {
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

TEST_F(AggregateLoopTest, ARankAheadWaitsInTheStore) {
  options_.max_open_values = 1000;
  options_.run.chunk_bytes = 4096;
  loop_ = MakeLoop();
  const int64_t second = Attach(1);
  for (int64_t step = 0; step < 20000; step += 100) Log(second, step, step + 99, 1);
  Settle();
  EXPECT_LT(loop_->counters().open_values, 5000u);
  EXPECT_THAT(Rows(), IsEmpty());
  const int64_t first = Attach(0);
  Log(first, 0, 19999, 0);
  Settle();
  End(first);
  End(second);
  Settle();
  const std::vector<aggregate::RunRow> rows = Rows();
  ASSERT_EQ(rows.size(), 20000u);
  for (const aggregate::RunRow& row : rows) ASSERT_TRUE(row.Has("rank_mean/loss")) << row;
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
}

TEST_F(AggregateLoopTest, ARunWhosePrimaryNeverCameClosesAll) {
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
  EXPECT_EQ(Reader()->GetStream(second)->aggregated_seq, 10000u);
}

TEST_F(AggregateLoopTest, GoesOnAfterAWriteThatFailed) {
  local_world_size_ = 1;
  const int64_t first = Attach(0);
  Log(first, 0, 3, 1);
  // Another hand has written the row: the loop's own cannot be appended.
  absl::Notification may_go_on;
  Submit([&](storage::Store& store) -> absl::Status {
    may_go_on.WaitForNotification();
    const absl::Status defined = store.DefineRunShape(kRun, 1, {"loss"});
    if (!defined.ok()) return defined;
    const absl::Status written =
        store.AppendRunRows(kRun, BatchOf(0, {{.step = 0, .values = {9}}}));
    return written.ok() ? store.SetLastStep(kRun, 0) : written;
  });
  loop_->Step();
  may_go_on.Notify();
  Settle();
  EXPECT_EQ(loop_->counters().errors, 1u);
  now_ += absl::Seconds(1);
  Settle();
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(StoredRun().last_step, 3);
}

TEST_F(AggregateLoopTest, TheThreadServesNotificationsUntilItIsStopped) {
  options_.interval = absl::Milliseconds(1);
  loop_ = MakeLoop();
  loop_->Start();
  const int64_t first = Attach(0);
  const int64_t second = Attach(1);
  Log(first, 0, 99, 1);
  Log(second, 0, 99, 1);
  End(first);
  End(second);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (StoredRun().state == RunState::kRunning && absl::Now() < deadline) {
    Write([](storage::Store&) { return absl::OkStatus(); });
  }
  EXPECT_EQ(StoredRun().state, RunState::kFinished);
  EXPECT_EQ(Rows().size(), 100u);
  loop_->Stop();
  loop_->Stop();
}

}  // namespace
}  // namespace ranklog::pipeline
