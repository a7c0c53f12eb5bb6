#include "service/pipeline/retention_loop.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/service/storage/builders.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::pipeline {
namespace {

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::Dense;
using ::ranklog::testing::Keys;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::WaitFor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kBatches = 8;
constexpr uint64_t kRows = 1024;  // per batch, with 64 values each: 0.5 MiB

class RetentionLoopTest : public ::testing::Test {
 protected:
  RetentionLoopTest() { OpenStore(/*threads=*/false); }

  void OpenStore(bool threads) {
    retention_.reset();
    store_.reset();
    auto store = storage::Store::Open(dir_.path(), {.vfs = vfs_.name()});
    EXPECT_OK(store);
    store_ = std::make_unique<StoreLoop>(
        *std::move(store),
        StoreLoop::Options{.commit_interval = absl::Milliseconds(1), .threads = threads});
  }
  std::unique_ptr<storage::StoreReader> Reader() {
    auto reader = storage::StoreReader::Open(dir_.path(), vfs_.name());
    EXPECT_OK(reader);
    return *std::move(reader);
  }
  void Keep(const storage::KeepLimits& limits) {
    retention_ = std::make_unique<RetentionLoop>(
        store_.get(), Reader(),
        RetentionLoop::Options{.limits = limits,
                               .interval = absl::Milliseconds(5),
                               .pause = absl::Milliseconds(1),
                               .wall_clock = [this] { return now_; }});
  }
  // Adds a run of about 4 MiB that ended `age` ago.
  void Add(const std::string& job, absl::Duration age, bool complete = true) {
    ASSERT_OK(store_->SubmitAndWait([&](storage::Store& store) {
      const auto stream = store.Attach(SessionOf(0, ++rings_, job), AssignmentOf(job), 1);
      EXPECT_OK(stream);
      EXPECT_OK(store.DefineShape(stream->id, 1, Keys(64)));
      for (uint64_t i = 0; i < kBatches; ++i) {
        EXPECT_OK(store.Append(stream->id, Dense(1 + i * kRows, kRows, 1, 64)).status());
      }
      EXPECT_OK(store.SetAggregated(stream->id, {.through = kBatches * kRows, .late = 0}));
      const int64_t ended = absl::ToUnixMicros(now_ - age);
      EXPECT_OK(store.EndStream(stream->id, model::StreamState::kFinished, 0, "", ended));
      EXPECT_OK(store.CloseRun(stream->run, model::RunState::kFinished, 0, "", ended));
      model::Delivery delivery;
      delivery.run = stream->run;
      delivery.kind = "wandb";
      delivery.complete = complete;
      delivery.cursor = model::Json::object();
      return store.PutDelivery(delivery);
    }));
  }
  // Steps until there is nothing to do for now.
  void Settle() {
    for (int i = 0; i < 1000; ++i) {
      if (retention_->Step() == absl::Milliseconds(5)) return;
    }
    FAIL() << "it never ends";
  }
  // Returns the runs, newest first.
  std::vector<std::string> Runs() {
    std::vector<std::string> ids;
    const auto runs = Reader()->Runs();
    EXPECT_OK(runs);
    for (const model::Run& run : *runs) ids.push_back(run.run_id);
    return ids;
  }
  int64_t Used() { return Reader()->UsedBytes().value_or(-1); }

  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  uint64_t rings_ = 0;
  testing::FaultyVfs vfs_;
  const testing::TempDir dir_;
  std::unique_ptr<StoreLoop> store_;
  std::unique_ptr<RetentionLoop> retention_;
};

TEST_F(RetentionLoopTest, RemovesWhatIsOldEnough) {
  Add("old", absl::Hours(3));
  Add("undelivered", absl::Hours(3), /*complete=*/false);
  Add("young", absl::Hours(1));
  const int64_t before = Used();
  Keep({.keep_for = absl::Hours(2), .keep_bytes = storage::KeepLimits::kUnlimited});
  Settle();
  EXPECT_THAT(Runs(), ElementsAre("young", "undelivered"));
  EXPECT_EQ(retention_->counters().removed_runs, 1u);
  EXPECT_GT(retention_->counters().removed_bytes, 3u << 20);
  EXPECT_LT(Used(), before * 3 / 4) << "what it held is swept";
  now_ += absl::Hours(1);
  Settle();
  EXPECT_THAT(Runs(), ElementsAre("undelivered"));
}

TEST_F(RetentionLoopTest, RemovesOldestUntilSizeFits) {
  Add("third", absl::Hours(1));
  Add("first", absl::Hours(3));
  Add("second", absl::Hours(2));
  Add("fourth", absl::Minutes(1));
  Keep({.keep_for = absl::InfiniteDuration(), .keep_bytes = Used() - (5 << 20)});
  Settle();
  EXPECT_THAT(Runs(), ElementsAre("fourth", "third")) << "one was not enough, three too many";
}

TEST_F(RetentionLoopTest, KeepsWhatIsWithinTheLimits) {
  Add("run", absl::Hours(1));
  Keep({.keep_for = absl::Hours(2), .keep_bytes = Used()});
  Settle();
  EXPECT_THAT(Runs(), ElementsAre("run"));
}

TEST_F(RetentionLoopTest, UndeliveredRunStaysDespiteLimits) {
  Add("undelivered", absl::Hours(9000), /*complete=*/false);
  Keep({.keep_for = absl::ZeroDuration(), .keep_bytes = 0});
  Settle();
  EXPECT_THAT(Runs(), ElementsAre("undelivered"));
}

TEST_F(RetentionLoopTest, NextDaemonFinishesTheSweep) {
  Add("old", absl::Hours(3));
  const int64_t before = Used();
  Keep({.keep_for = absl::Hours(2), .keep_bytes = 0});
  while (retention_->counters().removed_runs == 0) retention_->Step();
  retention_->Step();
  EXPECT_GT(Used(), before / 4) << "it has not swept all";
  OpenStore(/*threads=*/false);
  EXPECT_THAT(Runs(), IsEmpty());
  Keep({.keep_for = absl::InfiniteDuration(), .keep_bytes = storage::KeepLimits::kUnlimited});
  Settle();
  EXPECT_LT(Used(), before / 8);
  EXPECT_OK(Reader()->Check());
}

TEST_F(RetentionLoopTest, SweepContinuesAfterDiskError) {
  Add("old", absl::Hours(3));
  const int64_t before = Used();
  Keep({.keep_for = absl::Hours(2), .keep_bytes = 0});
  while (retention_->counters().removed_runs == 0) retention_->Step();
  vfs_.FailSyncs(1, EIO);
  EXPECT_EQ(retention_->Step(), absl::Milliseconds(5)) << "not at once";
  vfs_.Heal();
  Settle();
  EXPECT_LT(Used(), before / 8);
}

TEST_F(RetentionLoopTest, ThreadRemovesRunsAlongsideCommits) {
  OpenStore(/*threads=*/true);
  for (int i = 0; i < 3; ++i) Add(absl::StrCat("old-", i), absl::Hours(3));
  Keep({.keep_for = absl::Hours(2), .keep_bytes = storage::KeepLimits::kUnlimited});
  retention_->Start();
  Add("young", absl::Hours(1));
  EXPECT_TRUE(WaitFor([&] { return retention_->counters().removed_bytes > 10u << 20; }));
  EXPECT_THAT(Runs(), ElementsAre("young"));
  retention_->Stop();
}

}  // namespace
}  // namespace ranklog::pipeline
