// The order in which RankWatch takes rings, and what waits for it.

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/ingest/rank_watch_fixture.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::RingImage;
using ::ranklog::testing::WaitFor;

// Found by the simulation: the dead process counted as alive meanwhile, and the next one as its
// double.
TEST_F(RankWatchTest, SuccessorWaitsForAnUnstoredRing) {
  RingImage ring;
  v1::Hello hello = HelloOf(1);
  hello.mutable_launch()->set_id("launch");
  hello.mutable_launch()->set_process("dead@0");
  ring.header().incarnation = 1;
  ring.Hello(hello.SerializeAsString());
  ring.Shape(1, {"loss"});
  ring.Row(1, 0, {0.5});
  disk_.FailSyncs(3, EIO);  // it is attached, but not ended
  Leave(1, std::move(ring));
  Watch();
  ASSERT_TRUE(
      WaitFor([&] { return StreamOf(1).id != 0 && store_->counters().failed_commits > 0; }));
  const model::StreamKey next = {"p", Job(1), 0, 2};
  EXPECT_TRUE(registry_.MustWaitForPredecessor(next, "next@0"));
  disk_.Heal();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  EXPECT_FALSE(registry_.MustWaitForPredecessor(next, "next@0"));
}

// Otherwise the rows of the child would close steps that its parent has logged as well.
TEST_F(RankWatchTest, LiveParentIsAttachedBeforeItsDeadChildIsDrained) {
  LeaveForked(1, /*pid=*/100);
  UniqueFd parent = Lock(1);
  LeaveForked(2, /*pid=*/101);
  std::vector<model::Stream> streams = TakeWhatIsLeft();
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(streams[0].key.incarnation, 1u);
  EXPECT_EQ(streams[0].state, model::StreamState::kLive);
  EXPECT_EQ(streams[0].durable_seq, 0u);
  EXPECT_EQ(streams[1].key.incarnation, 2u);
  EXPECT_NE(streams[1].state, model::StreamState::kLive);
  EXPECT_EQ(streams[1].durable_seq, 2u);
  EXPECT_TRUE(IsThere(1));
  parent = UniqueFd();  // it dies, and was never connected
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
}

// Both are found by the first scan. Rows of the first process would be late in the run.
TEST_F(RankWatchTest, ForkedSuccessorWaitsForRingsOfADeadProcess) {
  LeaveForked(1, /*pid=*/50, "process@0");
  LeaveForked(2, /*pid=*/100);
  LeaveForked(3, /*pid=*/101);
  const UniqueFd parent = Lock(2), child = Lock(3);
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Minutes(1));
  ASSERT_TRUE(HasEnded(1)) << "the successor's run is 'job1', or it is missing";
  EXPECT_EQ(StreamOf(1).key.incarnation, 1u);
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
  const auto reader = Reader();
  const auto runs = reader->Runs();
  ASSERT_TRUE(runs.ok() && runs->size() == 2u);
  const auto next = std::find_if(runs->begin(), runs->end(),
                                 [](const model::Run& run) { return run.run_id != Job(1); });
  ASSERT_OK_AND_ASSIGN(const std::vector<model::Stream> streams, reader->Streams(next->id));
  ASSERT_EQ(streams.size(), 2u);
  for (const model::Stream& stream : streams) EXPECT_EQ(stream.state, model::StreamState::kLive);
}

TEST_F(RankWatchTest, LiveRankThatDidNotForkAttachesByItself) {
  LeaveForked(1, /*pid=*/100);
  LeaveForked(2, /*pid=*/100);  // of another thread
  const UniqueFd first = Lock(1), second = Lock(2);
  Watch();
  ExpectItLooksOn(3);
  EXPECT_EQ(StreamOf(1).id, 0);
}

TEST_F(RankWatchTest, RunWaitsOnlySomeTimeForAForkedChildThatDoesNotConnect) {
  LeaveForked(1, /*pid=*/100);
  LeaveForked(2, /*pid=*/101);
  const UniqueFd parent = Lock(1), child = Lock(2);
  Watch(/*attach_grace=*/absl::Milliseconds(20));
  EXPECT_TRUE(WaitFor([&] { return StreamOf(1).passed_step > int64_t{1} << 60; }));
  EXPECT_EQ(StreamOf(1).state, model::StreamState::kLive);
}

// So the rows of a dead process are in the store before its successor attaches.
TEST_F(RankWatchTest, StartTakesAllOrphansFirst) {
  AttachAndLose(1, nullptr);
  Leave(1, Ring(1));
  Leave(2, Ring(2));
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Minutes(1));
  for (const uint64_t incarnation : {1, 2}) {
    EXPECT_TRUE(HasEnded(incarnation)) << incarnation;
    EXPECT_EQ(StreamOf(incarnation).durable_seq, 2u);
  }
}

// A scan takes 256 of them, because each needs a descriptor.
TEST_F(RankWatchTest, StartTakesManyOrphansFirst) {
  scan_interval_ = absl::Hours(1);
  constexpr uint64_t kMany = 260;
  for (uint64_t i = 1; i <= kMany; ++i) Leave(i, Ring(i));
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Hours(1));
  for (uint64_t i = 1; i <= kMany; ++i) EXPECT_FALSE(IsThere(i)) << i;
  EXPECT_EQ(counters_.orphan_rows, 2 * kMany);
}

TEST_F(RankWatchTest, HeadStartLimitsStartupWait) {
  disk_.FailSyncs(1, EIO);
  Leave(1, Ring(1));
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Milliseconds(20));
  EXPECT_FALSE(HasEnded(1));
  disk_.Heal();
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1); }));
}

TEST_F(RankWatchTest, CatchUpDrainsPresentRings) {
  scan_interval_ = absl::Hours(1);
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Minutes(1));
  for (const uint64_t incarnation : {1, 2}) {
    Leave(incarnation, Ring(incarnation));
    EXPECT_TRUE(IsEndedWhenCaughtUp(incarnation)) << incarnation;
  }
}

// Those ranks died after the waiting one came.
TEST_F(RankWatchTest, CatchUpIgnoresLaterOrphans) {
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Hours(1));
  std::atomic<bool> stop = false;
  std::thread dying([&] {
    constexpr uint64_t kAtOnce = 100;  // else a slow watch would find ever more rings in each scan
    for (uint64_t i = 1000; !stop; ++i) {
      Leave(i, Ring(i));
      do absl::SleepFor(absl::Milliseconds(1));
      while (IsThere(i + 1 - kAtOnce) && !stop);
    }
  });
  for (const uint64_t incarnation : {1, 2, 3}) {
    Leave(incarnation, Ring(incarnation));
    EXPECT_TRUE(IsEndedWhenCaughtUp(incarnation));
  }
  stop = true;
  dying.join();
}

TEST_F(RankWatchTest, CatchUpWaitIsBounded) {
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Milliseconds(20));
  disk_.FailSyncs(1, EIO);
  Leave(1, Ring(1));
  EXPECT_FALSE(IsEndedWhenCaughtUp(1));
  disk_.Heal();
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1); }));
}

// Rings that ran side by side in one start come before those of the next start.
TEST_F(RankWatchTest, StartsAreDrainedInOrder) {
  for (const uint64_t start : {1, 2}) {
    for (const uint32_t rank : {1, 0}) {
      const uint64_t incarnation = 2 * start + rank;
      v1::Hello hello = HelloOf(incarnation);
      hello.mutable_stream()->set_job_id(Job(1));
      hello.mutable_stream()->set_rank(rank);
      hello.mutable_identity()->set_world_size(2);
      hello.mutable_settings()->set_start_time_us(static_cast<int64_t>(10 * start - rank));
      hello.mutable_launch()->set_id("launch " + std::to_string(start));
      hello.mutable_launch()->set_id_given(true);
      hello.mutable_launch()->set_process("process " + std::to_string(incarnation));
      hello.mutable_settings()->set_resume("allow");
      RingImage ring = Ring(incarnation);
      ring.Hello(hello.SerializeAsString());
      Leave(incarnation, ring);
    }
  }
  const std::vector<model::Stream> streams = TakeWhatIsLeft();
  ASSERT_EQ(streams.size(), 4u);
  for (const model::Stream& stream : streams) {
    EXPECT_EQ(stream.attempt, stream.key.incarnation / 2) << stream.key.incarnation;
    EXPECT_FALSE(stream.began_anew);
  }
}

// A process with a smaller number belongs to an older boot, or called Init earlier.
TEST_F(RankWatchTest, RankProcessesAreDrainedInOrder) {
  std::string this_boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), this_boot);
  const int processes = 6;
  for (uint64_t i = processes; i > 0; --i) {
    v1::Hello hello = HelloOf(i);
    hello.mutable_stream()->set_job_id(Job(1));
    // From one process to the next of a boot, the wall clock goes back.
    hello.mutable_settings()->set_start_time_us(static_cast<int64_t>(i == 1 ? 1 : 1000 - i));
    hello.mutable_identity()->set_boot_id(i == 1 ? "" : i <= 3 ? "another" : this_boot);
    hello.mutable_identity()->set_began_us(i <= 3 ? 100 + i : i);
    RingImage ring = Ring(i);
    ring.Hello(hello.SerializeAsString());
    Leave(i, ring);
  }
  const std::vector<model::Stream> streams = TakeWhatIsLeft();
  ASSERT_EQ(streams.size(), size_t{processes});
  for (size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(streams[i].key.incarnation, i + 1);
    EXPECT_EQ(streams[i].attempt, i + 1);
    EXPECT_EQ(streams[i].state, model::StreamState::kCrashed);
    if (i == 0) continue;
    EXPECT_GE(streams[i].started_us, streams[i - 1].ended_us);
  }
}

// The rings of threads and of other ranks were written side by side.
TEST_F(RankWatchTest, ConcurrentRingsAttachBeforeAnyEnds) {
  for (uint64_t i = 1; i <= 4; ++i) {
    v1::Hello hello = HelloOf(i);
    hello.mutable_stream()->set_job_id(Job(1));
    hello.mutable_stream()->set_rank(static_cast<uint32_t>(i / 3));
    hello.mutable_identity()->set_world_size(2);
    hello.mutable_identity()->set_local_rank(static_cast<uint32_t>(i / 3));
    hello.mutable_identity()->set_thread(i % 2 == 0 ? 1 : 0);
    RingImage ring = Ring(i);
    ring.Hello(hello.SerializeAsString());
    Leave(i, ring);
  }
  const std::vector<model::Stream> streams = TakeWhatIsLeft();
  ASSERT_EQ(streams.size(), 4u);
  for (const model::Stream& one : streams) {
    for (const model::Stream& other : streams) EXPECT_LE(one.started_us, other.ended_us);
  }
}

}  // namespace
}  // namespace ranklog::ingest
