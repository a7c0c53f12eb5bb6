// The aggregate loop over a real store, one step at a time.

#ifndef TESTS_SERVICE_PIPELINE_AGGREGATE_LOOP_FIXTURE_H_
#define TESTS_SERVICE_PIPELINE_AGGREGATE_LOOP_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "service/pipeline/aggregate_loop.h"
#include "tests/service/aggregate/rows.h"
#include "tests/service/storage/stored_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::pipeline {

inline constexpr int64_t kNowUs = 1'700'000'000'000'000;

// One job with up to two ranks on one node, over the real store.
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
  // Attaches a ring of a rank to run 1, and returns its stream's id. `init_us` identifies its
  // Init(); 0: an Init() of its own. `left`: its process is dead.
  int64_t Attach(uint32_t rank, uint64_t incarnation = 1, int64_t init_us = 0, bool left = false) {
    model::Session session;
    session.left = left;
    session.settings.start_time_us = init_us == 0 ? static_cast<int64_t>(incarnation) : init_us;
    session.stream = {"project", "job", rank, incarnation};
    session.settings.strategy = strategy_;
    session.settings.rank_statistics = {"mean"};
    session.identity.local_rank = rank;
    session.identity.world_size = world_size_;
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
  // Appends rows with one loss per step, for the steps `from` to `to`.
  void Log(int64_t stream, int64_t from, int64_t to, double loss, bool commits = true) {
    std::vector<aggregate::RankRow> rows;
    for (int64_t step = from; step <= to; ++step) {
      rows.push_back(
          {.step = step, .values = {loss + static_cast<double>(step)}, .commits = commits});
    }
    const uint64_t first = logged_[stream] + 1;
    logged_[stream] += rows.size();
    Write([&](storage::Store& store) {
      return store.Append(stream, aggregate::BatchOf(first, rows)).status();
    });
    loop_->Notify(kRun);
  }
  void End(int64_t stream, model::StreamState state = model::StreamState::kFinished,
           int exit_code = 0, const char* reason = "") {
    Write([&](storage::Store& store) {
      return store.EndStream(stream, state, exit_code, reason, clock_us_++);
    });
    loop_->Notify(kRun);
  }
  // Steps until several steps in a row had nothing to do, each after the writes of the one before.
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
  uint32_t world_size_ = 2;
  uint32_t local_world_size_ = 2;
  AggregateLoop::Options options_;
  absl::Time now_ = absl::FromUnixSeconds(5000);
  int64_t clock_us_ = kNowUs;
  std::map<int64_t, uint64_t> logged_;
  absl::Mutex mutex_;
  std::map<int64_t, int> told_;
  std::unique_ptr<StoreLoop> store_;
  std::unique_ptr<AggregateLoop> loop_;  // destroyed before the store loop
};

}  // namespace ranklog::pipeline

#endif  // TESTS_SERVICE_PIPELINE_AGGREGATE_LOOP_FIXTURE_H_
