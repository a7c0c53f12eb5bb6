#include "service/pipeline/aggregate_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/pipeline/aggregate_loop_fixture.h"

namespace ranklog::pipeline {
namespace {

using aggregate::BatchOf;
using model::RunState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST_F(AggregateLoopTest, MakesRowsAndNotifiesDelivery) {
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
  EXPECT_EQ(StoredStream(*Reader(), first)->aggregated_seq, 5u);
  EXPECT_EQ(loop_->counters().made_rows, 5u);
}

TEST_F(AggregateLoopTest, IdlesWithoutNewRows) {
  local_world_size_ = 1;
  EXPECT_EQ(loop_->Step(), absl::InfiniteDuration());
  Log(Attach(0), 0, 9, 1);
  Settle();
  EXPECT_EQ(loop_->Step(), absl::InfiniteDuration());
}

// Found by the simulation: if ids were not in the order of their definitions, rows of the smaller
// id were dropped as late.
TEST_F(AggregateLoopTest, ShapesMayComeInAnyOrder) {
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
  EXPECT_EQ(StoredStream(*Reader(), stream)->late_rows, 0u);
}

TEST_F(AggregateLoopTest, ResumesRunningRunsAfterARestart) {
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

TEST_F(AggregateLoopTest, RowsAheadWaitInStore) {
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

TEST_F(AggregateLoopTest, ContinuesAfterAFailedWrite) {
  local_world_size_ = 1;
  const int64_t first = Attach(0);
  Log(first, 0, 3, 1);
  // Somebody else writes the row first, so the loop's own append fails.
  absl::Notification may_go_on;
  Submit([&](storage::Store& store) -> absl::Status {
    may_go_on.WaitForNotification();
    const absl::Status defined = store.DefineRunShape(kRun, 1, {"loss"});
    if (!defined.ok()) return defined;
    const absl::Status written =
        store.AppendRunRows(kRun, BatchOf(0, {{.step = 0, .values = {9}}}));
    return written.ok() ? store.SetPosition(kRun, {.last_step = 0, .furthest_step = 0}) : written;
  });
  std::ostringstream log;
  const auto logger = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "log", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  loop_->Step();
  may_go_on.Notify();
  Settle();
  spdlog::set_default_logger(logger);
  EXPECT_EQ(loop_->counters().errors, 1u);
  EXPECT_THAT(loop_->counters().stopped, ElementsAre(Pair(kRun, HasSubstr("these begin at 0"))));
  EXPECT_THAT(log.str(), HasSubstr("aggregate: run job: it has 1 rows; these begin at 0"));
  now_ += absl::Seconds(1);
  Settle();
  EXPECT_THAT(Steps(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(StoredRun().last_step, 3);
  EXPECT_THAT(loop_->counters().stopped, IsEmpty());
}

TEST_F(AggregateLoopTest, ThreadServesNotificationsUntilStop) {
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
