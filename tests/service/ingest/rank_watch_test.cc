#include "service/ingest/orphans/rank_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "ranklog/v1/places.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/convert.h"
#include "tests/support/bare_ingest.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ring_image.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::RingImage;
using ::ranklog::testing::TempDir;
using ::ranklog::testing::WaitFor;
using ::testing::HasSubstr;

std::shared_ptr<Peer> PeerWith(pid_t pid) {
  auto peer = std::make_shared<Peer>();
  peer->pid = pid;
  peer->uid = geteuid();
  peer->pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  EXPECT_TRUE(peer->pidfd.valid());
  return peer;
}

// The watch over a spool directory and a store, both real. A test waits for the watch's actions. To
// see that the watch leaves something alone, a test adds a ring later and waits until the watch
// takes it. By then the watch has scanned twice.
class RankWatchTest : public ::testing::Test {
 protected:
  RankWatchTest() {
    auto store = storage::Store::Open(state_.path(), {.vfs = disk_.name()});
    EXPECT_OK(store);
    store_ = std::make_unique<pipeline::StoreLoop>(
        *std::move(store), pipeline::StoreLoop::Options{.commit_interval = absl::Milliseconds(1)});
    attacher_ = std::make_unique<Attacher>(Reader());
    context_ = testing::BareIngest(store_.get(), attacher_.get(), &registry_, &counters_);
  }
  ~RankWatchTest() override {
    if (watch_ != nullptr) watch_->Stop();
    store_->Stop();
  }

  std::unique_ptr<storage::StoreReader> Reader() {
    auto reader = storage::StoreReader::Open(state_.path());
    EXPECT_OK(reader);
    return *std::move(reader);
  }
  void Watch(absl::Duration attach_grace = absl::Hours(1),
             absl::Duration head_start = absl::ZeroDuration()) {
    watch_ = std::make_unique<RankWatch>(
        &context_, Reader(), &wake_,
        RankWatch::Options{.spool_dirs = {spool_.path(), spool_.File("not/there")},
                           .socket_path = socket_,
                           .scan_interval = scan_interval_,
                           .confirm = absl::Milliseconds(5),
                           .head_start = head_start,
                           .release_grace = let_go_,
                           .attach_grace = attach_grace});
    ASSERT_OK(watch_->Start());
  }
  // Starts a watch, and waits until it has taken all rings of one run.
  std::vector<model::Stream> TakeWhatIsLeft() {
    Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Minutes(1));
    const auto reader = Reader();
    const auto runs = reader->Runs();
    EXPECT_TRUE(runs.ok() && runs->size() == 1);
    if (!runs.ok() || runs->size() != 1) return {};
    return reader->Streams(runs->front().id).value_or(std::vector<model::Stream>());
  }

  static std::string Job(uint64_t incarnation) { return "job" + std::to_string(incarnation); }
  std::string RingPath(uint64_t incarnation) const {
    return spool_.File("ring-1-" + std::to_string(incarnation) + ".spool");
  }
  static v1::Hello HelloOf(uint64_t incarnation) {
    v1::Hello hello;
    hello.set_protocol(v1::kProtocolVersion);
    hello.mutable_stream()->set_project("p");
    hello.mutable_stream()->set_job_id(Job(incarnation));
    hello.mutable_stream()->set_incarnation(incarnation);
    hello.mutable_identity()->set_world_size(1);
    return hello;
  }
  // Returns a ring with two rows of a dead rank: nobody holds its lock.
  RingImage Ring(uint64_t incarnation) const {
    RingImage ring;
    ring.header().incarnation = incarnation;
    ring.Hello(HelloOf(incarnation).SerializeAsString());
    ring.Shape(1, {"loss"});
    ring.Row(1, 0, {0.5});
    ring.Row(2, 1, {0.25});
    return ring;
  }
  // Writes the whole file at once, since the watch may scan at any time.
  void Leave(uint64_t incarnation, RingImage ring) const {
    const std::string unfinished = spool_.File("unfinished-" + std::to_string(incarnation));
    std::ofstream(unfinished, std::ios::binary) << ring.bytes();
    std::filesystem::rename(unfinished, RingPath(incarnation));
  }
  // Locks a ring like its rank, until the descriptor is closed.
  UniqueFd Lock(uint64_t incarnation) const {
    UniqueFd rank(open(RingPath(incarnation).c_str(), O_RDWR | O_CLOEXEC));
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    EXPECT_EQ(fcntl(rank.get(), F_OFD_SETLK, &lock), 0);
    return rank;
  }
  // Leaves a ring of one process of job 1, which has forked.
  void LeaveForked(uint64_t incarnation, int64_t pid) const {
    v1::Hello hello = HelloOf(incarnation);
    hello.mutable_stream()->set_job_id(Job(1));
    hello.mutable_identity()->set_pid(pid);
    hello.mutable_launch()->set_id("launch");
    hello.mutable_launch()->set_process("process@1");
    RingImage ring = Ring(incarnation);
    ring.Hello(hello.SerializeAsString());
    Leave(incarnation, ring);
  }
  bool IsThere(uint64_t incarnation) const {
    return std::filesystem::exists(RingPath(incarnation));
  }
  // A rank attaches, and its connection breaks.
  model::Stream AttachAndLose(uint64_t incarnation, std::shared_ptr<const Peer> peer) {
    const auto session = ToSession(HelloOf(incarnation));
    EXPECT_OK(session);
    model::Stream stream;
    EXPECT_OK(store_->SubmitAndWait([&](storage::Store& store) {
      auto attached = attacher_->Attach(*session, store);
      if (attached.ok()) stream = *attached;
      return attached.status();
    }));
    if (peer == nullptr) return stream;
    std::shared_ptr<const RingFile> ring;
    if (IsThere(incarnation)) ring = *RingFile::OpenLeft(RingPath(incarnation));
    registry_.Detach(stream.key, registry_.Attach(stream, ring, std::move(peer)));
    return stream;
  }

  // Returns the stream of a job; its id is 0 if there is none.
  model::Stream StreamOf(uint64_t incarnation) {
    const auto reader = Reader();
    const auto runs = reader->Runs();
    EXPECT_OK(runs);
    for (const model::Run& run : *runs) {
      if (run.run_id != Job(incarnation)) continue;
      const auto streams = reader->Streams(run.id);
      return streams->front();
    }
    return {};
  }
  bool HasEnded(uint64_t incarnation) {
    const model::Stream stream = StreamOf(incarnation);
    return stream.id != 0 && stream.state != model::StreamState::kLive;
  }
  bool IsEndedWhenCaughtUp(uint64_t incarnation) {
    bool ended = false;
    absl::Notification caught_up;
    watch_->WhenCaughtUp([&] {
      ended = HasEnded(incarnation);
      caught_up.Notify();
    });
    caught_up.WaitForNotification();
    return ended;
  }
  // Removes the run of an ended stream, as retention finally does.
  void RemoveRunOf(uint64_t incarnation) {
    const model::Stream stream = StreamOf(incarnation);
    ASSERT_OK(store_->SubmitAndWait([&](storage::Store& store) {
      EXPECT_OK(store.SetAggregated(stream.id, {.through = stream.durable_seq, .late = 0}));
      EXPECT_OK(store.CloseRun(stream.run, model::RunState::kCrashed, 1, "", 1));
      for (const char* kind : {"local", "wandb"}) {
        model::Delivery delivery;
        delivery.run = stream.run;
        delivery.kind = kind;
        delivery.complete = true;
        delivery.cursor = model::Json::object();
        EXPECT_OK(store.PutDelivery(delivery));
      }
      return store.RemoveRun(stream.run, 2);
    }));
  }
  // Checks that the watch has scanned everything twice since.
  void ExpectItLooksOn(uint64_t incarnation) {
    Leave(incarnation, Ring(incarnation));
    EXPECT_TRUE(WaitFor([&] { return HasEnded(incarnation) && !IsThere(incarnation); }));
  }

  testing::FaultyVfs disk_;  // outlives the store
  const TempDir state_;
  const TempDir spool_;
  std::string socket_;
  absl::Duration scan_interval_ = absl::Milliseconds(5);
  absl::Duration let_go_ = absl::Hours(1);
  WakeEvent wake_;
  StreamRegistry registry_{[this] { wake_.Notify(); }};
  IngestCounters counters_;
  std::unique_ptr<pipeline::StoreLoop> store_;
  std::unique_ptr<Attacher> attacher_;
  IngestContext context_;
  std::unique_ptr<RankWatch> watch_;
};

TEST_F(RankWatchTest, DrainsRingThatNeverAttached) {
  Leave(1, Ring(1));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  const model::Stream stream = StreamOf(1);
  EXPECT_EQ(stream.state, model::StreamState::kCrashed);
  EXPECT_EQ(stream.durable_seq, 2u);
  EXPECT_EQ(counters_.orphans, 1u);
  EXPECT_EQ(counters_.orphan_rows, 2u);
}

// The daemon died after it had stored the ring, before it removed the file. Then the run was
// removed.
TEST_F(RankWatchTest, RingOfRemovedRunIsDropped) {
  Leave(1, Ring(1));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  RemoveRunOf(1);
  Leave(1, Ring(1));
  EXPECT_TRUE(WaitFor([&] { return !IsThere(1); }));
  EXPECT_EQ(StreamOf(1).id, 0);
  EXPECT_EQ(counters_.orphan_rows, 2u);
}

TEST_F(RankWatchTest, StreamOfRemovedRunIsForgotten) {
  Leave(1, Ring(1));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  const model::Stream stream = StreamOf(1);
  RemoveRunOf(1);
  registry_.AddKnown(stream);  // as if a rank attached once more after its end
  Leave(1, Ring(1));
  EXPECT_TRUE(WaitFor([&] { return !IsThere(1); }));
  EXPECT_FALSE(registry_.Find(stream.key).has_value());
}

TEST_F(RankWatchTest, RingIsDrainedAfterDiskError) {
  disk_.FailSyncs(1, EIO);
  Leave(1, Ring(1));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return store_->counters().failed_commits > 0; }));
  disk_.Heal();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
}

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

TEST_F(RankWatchTest, DrainsRingOfLiveStoredStream) {
  AttachAndLose(1, nullptr);
  Leave(1, Ring(1));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
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

TEST_F(RankWatchTest, CatchUpWaitIsBounded) {
  Watch(/*attach_grace=*/absl::Hours(1), /*head_start=*/absl::Milliseconds(20));
  disk_.FailSyncs(1, EIO);
  Leave(1, Ring(1));
  EXPECT_FALSE(IsEndedWhenCaughtUp(1));
  disk_.Heal();
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1); }));
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

TEST_F(RankWatchTest, OldFileWithoutHelloIsRemoved) {
  RingImage empty;
  empty.header().hello_bytes = 0;
  Leave(1, empty);
  Leave(2, empty);
  const timespec hour_ago = {time(nullptr) - 3600, 0};
  const timespec times[] = {hour_ago, hour_ago};
  ASSERT_EQ(utimensat(AT_FDCWD, RingPath(1).c_str(), times, 0), 0);
  Watch();
  EXPECT_TRUE(WaitFor([&] { return !IsThere(1); }));
  ExpectItLooksOn(3);
  EXPECT_TRUE(IsThere(2));
}

// Two daemons of one user scan the same directories.
TEST_F(RankWatchTest, KeepsRingsOfAnotherDaemon) {
  const auto leave = [this](uint64_t incarnation, const std::string& address) {
    v1::Hello hello = HelloOf(incarnation);
    hello.mutable_ring()->set_address(address);
    RingImage ring = Ring(incarnation);
    ring.Hello(hello.SerializeAsString());
    Leave(incarnation, ring);
  };
  const TempDir directory;
  const std::string link = spool_.File("link");
  std::filesystem::create_directory_symlink(directory.path(), link);
  socket_ = directory.File("d.sock");
  leave(1, "unix:" + directory.File("other.sock"));
  leave(2, v1::kDefaultAddress);
  leave(3, "unix:" + socket_);
  leave(4, "unix:" + link + "/d.sock");
  Watch();
  for (uint64_t ours : {3, 4}) EXPECT_TRUE(WaitFor([&] { return HasEnded(ours); })) << ours;
  ExpectItLooksOn(5);  // it names no daemon
  for (uint64_t theirs : {1, 2}) {
    EXPECT_TRUE(IsThere(theirs)) << theirs;
    EXPECT_EQ(StreamOf(theirs).id, 0) << theirs;
  }
  watch_->Stop();
  socket_ = "/dev/shm/ranklog-" + std::to_string(geteuid()) + "/ranklogd.sock";
  Watch();
  EXPECT_TRUE(WaitFor([&] { return HasEnded(2); }));
  EXPECT_TRUE(IsThere(1));
}

// No rank makes its spool where others can write.
TEST_F(RankWatchTest, IgnoresDirectoriesWritableByOthers) {
  const std::string open = spool_.File("not/there");
  std::filesystem::create_directories(open);
  std::filesystem::permissions(open, std::filesystem::perms::all);
  std::ofstream(open + "/ring-1-1.spool", std::ios::binary) << Ring(1).bytes();
  Watch();
  ExpectItLooksOn(2);
  EXPECT_TRUE(std::filesystem::exists(open + "/ring-1-1.spool"));
  EXPECT_EQ(StreamOf(1).id, 0);
  std::filesystem::permissions(open, std::filesystem::perms::owner_all);
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1); }));
}

// As with a stream over gRPC, a ring cannot make the store hold more keys than libranklog would
// send.
TEST_F(RankWatchTest, RefusesTooManyShapesInRing) {
  RingImage ring = Ring(1);
  ring.Shape(v1::kMaxShapes, {"the last one"});
  ring.Row(3, 2, {0.125});
  ring.Shape(v1::kMaxShapes + 1, {"one too many"});
  ring.Row(4, 3, {0.0625});
  Leave(1, ring);
  Watch();
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1); }));
  const model::Stream stream = StreamOf(1);
  EXPECT_THAT(stream.reason, HasSubstr("at most 10000 shapes"));
  EXPECT_TRUE(WaitFor([&] { return !IsThere(1); }));
  EXPECT_TRUE(std::filesystem::exists(RingPath(1) + ".damaged"));
  EXPECT_EQ(counters_.refused_shapes, 1u);
  const auto shapes = Reader()->Shapes(stream.id);
  ASSERT_OK(shapes);
  EXPECT_LE(shapes->size(), size_t{v1::kMaxShapes} + 1);
}

// Its rank attached, then died.
TEST_F(RankWatchTest, RingOfLaterLayoutIsKept) {
  RingImage ring = Ring(1);
  ring.header().version = v1::kSpoolVersion + 1;
  Leave(1, ring);
  ChildProcess rank({"true"});
  AttachAndLose(1, PeerWith(rank.pid()));
  Watch();
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1); }));
  EXPECT_THAT(StreamOf(1).reason, HasSubstr("its layout is version 2"));
  ExpectItLooksOn(2);
  EXPECT_TRUE(IsThere(1));
  EXPECT_EQ(counters_.damaged_rings, 0u);
  watch_->Stop();

  Leave(1, Ring(1));  // as the later daemon reads it
  Watch();
  EXPECT_TRUE(WaitFor([&] { return !IsThere(1); }));
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
}

TEST_F(RankWatchTest, KeepsUnreadableRings) {
  RingImage foreign = Ring(1);
  foreign.Hello("no Hello at all");
  Leave(1, foreign);
  RingImage newer = Ring(2);
  newer.header().version = v1::kSpoolVersion + 1;
  Leave(2, newer);
  std::ofstream(spool_.File("ring-short.spool")) << "short";
  Watch();
  ExpectItLooksOn(3);
  EXPECT_TRUE(IsThere(1));
  EXPECT_TRUE(IsThere(2));
  EXPECT_EQ(counters_.unreadable_rings, 2u);
  EXPECT_TRUE(std::filesystem::exists(spool_.File("ring-short.spool")));
}

}  // namespace
}  // namespace ranklog::ingest
