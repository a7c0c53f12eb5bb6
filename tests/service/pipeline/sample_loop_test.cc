#include "service/pipeline/sample_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/service/storage/builders.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::pipeline {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;

// Real values of this machine, and of this process as the ranks.
class SampleLoopTest : public ::testing::Test {
 protected:
  SampleLoopTest() {
    auto store = storage::Store::Open(dir_.path(), {});
    EXPECT_OK(store);
    store_ = std::make_unique<StoreLoop>(*std::move(store), StoreLoop::Options{.threads = false});
    reader_ = storage::StoreReader::Open(dir_.path()).value();
    Start(absl::Seconds(15));
  }
  void Start(absl::Duration interval) {
    SampleLoop::Options options;
    options.interval = interval;
    options.node.nvml = "none";
    options.wall_clock = [] { return absl::FromUnixSeconds(1000); };
    options.steady_clock = [this] { return now_; };
    samples_ = std::make_unique<SampleLoop>(
        store_.get(), storage::StoreReader::Open(dir_.path()).value(), [this] { return pids_; },
        options);
  }
  // A rank of `job`, in the run `run_id`, whose process is this one. Returns the run.
  int64_t Attach(uint32_t rank, const std::string& job, const std::string& run_id,
                 bool no_samples = false) {
    int64_t run = 0;
    EXPECT_OK(store_->SubmitAndWait([&](storage::Store& store) {
      model::Session session = testing::SessionOf(rank, 100 + pids_.size(), job);
      session.settings.no_system_metrics = no_samples;
      model::RunAssignment assignment = testing::AssignmentOf(run_id, /*primary=*/true);
      assignment.primary_rank = rank;
      auto stream = store.Attach(session, assignment, 1);
      EXPECT_OK(stream);
      run = stream->run;
      pids_[stream->id] = getpid();
      return absl::OkStatus();
    }));
    samples_->Notify();
    return run;
  }
  absl::Duration Step() {
    const absl::Duration wait = samples_->Step();
    store_->Step();
    return wait;
  }
  absl::Duration StepAfter(absl::Duration time) {
    now_ += time;
    return Step();
  }
  std::vector<model::Sample> Of(int64_t run) { return reader_->Samples(run, 0, 100).value(); }
  void End(int64_t run) {
    const std::vector<model::Stream> streams = reader_->Streams(run).value();
    EXPECT_OK(store_->SubmitAndWait([&](storage::Store& store) {
      for (const model::Stream& stream : streams) {
        pids_.erase(stream.id);
        EXPECT_OK(store.EndStream(stream.id, model::StreamState::kFinished, 0, "", 2));
      }
      return store.CloseRun(run, model::RunState::kFinished, 0, "", 2);
    }));
  }

  testing::TempDir dir_;
  absl::Time now_ = absl::FromUnixSeconds(50);
  std::map<int64_t, pid_t> pids_;
  std::unique_ptr<StoreLoop> store_;
  std::unique_ptr<storage::StoreReader> reader_;
  std::unique_ptr<SampleLoop> samples_;
};

TEST_F(SampleLoopTest, TakesASampleAfterEachInterval) {
  EXPECT_EQ(Step(), absl::InfiniteDuration()) << "no run is live";
  const int64_t run = Attach(0, "job", "job");
  EXPECT_EQ(Step(), absl::Seconds(15));
  EXPECT_THAT(Of(run), IsEmpty());
  EXPECT_EQ(StepAfter(absl::Seconds(14)), absl::Seconds(1));
  EXPECT_THAT(Of(run), IsEmpty());
  EXPECT_EQ(StepAfter(absl::Seconds(1)), absl::Seconds(15));
  ASSERT_THAT(Of(run), SizeIs(1));
  EXPECT_EQ(Of(run)[0].time_us, 1'000'000'000);
  for (const char* const name :
       {"cpu", "memory_percent", "proc.memory.rssMB", "disk./.usagePercent", "network.sent"}) {
    EXPECT_THAT(Of(run)[0].values, Contains(Key(name)));
  }
  EXPECT_THAT(samples_->OfNode(), Contains(Key("memory_percent")));
  EXPECT_THAT(samples_->OfNode(), ::testing::Not(Contains(Key("proc.memory.rssMB"))));
  StepAfter(absl::Seconds(15));
  EXPECT_THAT(Of(run), SizeIs(2));
  EXPECT_EQ(samples_->counters().samples, 2u);
}

TEST_F(SampleLoopTest, AJobHasThemOnceUnderEveryStrategy) {
  const int64_t second = Attach(1, "job", "job-1");
  const int64_t first = Attach(0, "job", "job-0");
  const int64_t other = Attach(5, "other", "other-5");
  Step();
  StepAfter(absl::Seconds(15));
  EXPECT_THAT(Of(first), SizeIs(1));
  EXPECT_THAT(Of(second), IsEmpty());
  EXPECT_THAT(Of(other), SizeIs(1));
  End(first);
  StepAfter(absl::Seconds(15));  // the next rank's run takes over
  StepAfter(absl::Seconds(15));
  EXPECT_THAT(Of(first), SizeIs(1));
  EXPECT_THAT(Of(second), SizeIs(1));
}

TEST_F(SampleLoopTest, RestsWhileNoRunIsLive) {
  const int64_t run = Attach(0, "job", "job");
  Step();
  StepAfter(absl::Seconds(15));
  End(run);
  EXPECT_EQ(StepAfter(absl::Seconds(15)), absl::InfiniteDuration());
  EXPECT_THAT(Of(run), SizeIs(1));
  EXPECT_THAT(samples_->OfNode(), IsEmpty());
}

TEST_F(SampleLoopTest, StoresTheHardwareOnce) {
  const int64_t run = Attach(0, "job", "job");
  Step();
  ASSERT_OK_AND_ASSIGN(const model::Json hardware, reader_->Hardware(run));
  EXPECT_GE(hardware["cpu_count_logical"].get<int>(), 1) << hardware.dump();
}

TEST_F(SampleLoopTest, AJobMayHaveNone) {
  const int64_t run = Attach(0, "job", "job", /*no_samples=*/true);
  Step();
  StepAfter(absl::Seconds(15));
  EXPECT_THAT(Of(run), IsEmpty());
  EXPECT_THAT(reader_->Hardware(run), testing::IsOkAndHolds(model::Json::object()));
}

TEST_F(SampleLoopTest, WithoutAnIntervalOnlyTheHardwareIsKnown) {
  Start(absl::ZeroDuration());
  const int64_t run = Attach(0, "job", "job");
  Step();
  EXPECT_EQ(StepAfter(absl::Hours(1)), absl::InfiniteDuration());
  EXPECT_THAT(Of(run), IsEmpty());
  EXPECT_FALSE(reader_->Hardware(run)->empty());
}

}  // namespace
}  // namespace ranklog::pipeline
