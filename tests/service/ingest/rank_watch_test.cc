// Which rings RankWatch takes, keeps and removes.

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "ranklog/v1/places.h"
#include "tests/service/ingest/rank_watch_fixture.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::RingImage;
using ::ranklog::testing::TempDir;
using ::ranklog::testing::WaitFor;
using ::testing::HasSubstr;

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

TEST_F(RankWatchTest, DrainsRingOfLiveStoredStream) {
  AttachAndLose(1, nullptr);
  Leave(1, Ring(1));
  Watch();
  ASSERT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
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

// The first commit fails, and no other one: the rank must not be ended without its rows.
TEST_F(RankWatchTest, FailedDrainDoesNotEndTheRank) {
  ChildProcess rank({"tail", "-f", "/dev/null"});
  Leave(1, Ring(1));
  AttachAndLose(1, PeerWith(rank.pid()));
  rank.Kill();
  on_outcome_ = [this](const absl::Status& committed) {
    if (!committed.ok()) disk_.Heal();
  };
  std::atomic<bool> ended_early = false;
  context_.run_changed = [&](int64_t) {  // called after each end
    if (HasEnded(1) && StreamOf(1).durable_seq < 2) ended_early = true;
  };
  disk_.FailSyncs(1, EIO);
  Watch();
  EXPECT_TRUE(WaitFor([&] { return HasEnded(1) && !IsThere(1); }));
  watch_->Stop();
  EXPECT_FALSE(ended_early);
  EXPECT_EQ(StreamOf(1).durable_seq, 2u);
  EXPECT_EQ(store_->counters().failed_commits, 1u);
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
