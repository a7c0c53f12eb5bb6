// A RankWatch over a real spool directory and a real store, for its tests.

#ifndef TESTS_SERVICE_INGEST_RANK_WATCH_FIXTURE_H_
#define TESTS_SERVICE_INGEST_RANK_WATCH_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/orphans/rank_watch.h"
#include "service/ingest/ring/convert.h"
#include "tests/support/bare_ingest.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ring_image.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::ingest {

inline std::shared_ptr<Peer> PeerWith(pid_t pid) {
  auto peer = std::make_shared<Peer>();
  peer->pid = pid;
  peer->uid = geteuid();
  peer->pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  EXPECT_TRUE(peer->pidfd.valid());
  return peer;
}

// The watch over a spool directory and a store, both real. A test waits for the watch's actions. To
// see that the watch leaves something alone, a test adds two rings later, one after the other, and
// waits until the watch takes them. By then the watch has scanned everything once more.
class RankWatchTest : public ::testing::Test {
 protected:
  RankWatchTest() {
    auto store = storage::Store::Open(state_.path(), {.vfs = disk_.name()});
    EXPECT_OK(store);
    store_ = std::make_unique<pipeline::StoreLoop>(
        *std::move(store),
        pipeline::StoreLoop::Options{.commit_interval = absl::Milliseconds(1),
                                     .on_outcome = [this](const absl::Status& committed) {
                                       if (on_outcome_) on_outcome_(committed);
                                     }});
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
  testing::RingImage Ring(uint64_t incarnation) const {
    testing::RingImage ring;
    ring.header().incarnation = incarnation;
    ring.Hello(HelloOf(incarnation).SerializeAsString());
    ring.Shape(1, {"loss"});
    ring.Row(1, 0, {0.5});
    ring.Row(2, 1, {0.25});
    return ring;
  }
  // Writes the whole file at once, since the watch may scan at any time.
  void Leave(uint64_t incarnation, testing::RingImage ring) const {
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
  void LeaveForked(uint64_t incarnation, int64_t pid,
                   const std::string& process = "process@1") const {
    v1::Hello hello = HelloOf(incarnation);
    hello.mutable_stream()->set_job_id(Job(1));
    hello.mutable_identity()->set_pid(pid);
    hello.mutable_launch()->set_id("launch");
    hello.mutable_launch()->set_process(process);
    testing::RingImage ring = Ring(incarnation);
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
  // Checks that the watch has scanned everything since. The first scan may have begun before.
  void ExpectItLooksOn(uint64_t incarnation) {
    for (const uint64_t next : {incarnation, incarnation + 1000}) {
      Leave(next, Ring(next));
      EXPECT_TRUE(testing::WaitFor([&] { return HasEnded(next) && !IsThere(next); }));
    }
  }

  testing::FaultyVfs disk_;  // outlives the store
  const testing::TempDir state_;
  const testing::TempDir spool_;
  std::string socket_;
  absl::Duration scan_interval_ = absl::Milliseconds(5);
  absl::Duration let_go_ = absl::Hours(1);
  WakeEvent wake_;
  StreamRegistry registry_{[this] { wake_.Notify(); }};
  IngestCounters counters_;
  std::function<void(const absl::Status&)> on_outcome_;  // of commits, when it changes
  std::unique_ptr<pipeline::StoreLoop> store_;
  std::unique_ptr<Attacher> attacher_;
  IngestContext context_;
  std::unique_ptr<RankWatch> watch_;
};

}  // namespace ranklog::ingest

#endif  // TESTS_SERVICE_INGEST_RANK_WATCH_FIXTURE_H_
