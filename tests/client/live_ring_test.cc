// The child's side of a ring that the daemon reads while it grows. The test writes the daemon's marks.

#include "client/stream/live_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>

#include "client/stream/socket/open_sockets.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

class LiveRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto spool = Spool::Create({dir_.path(), v1::kMinRingBytes}, v1::Hello());
    ASSERT_TRUE(spool.ok()) << spool.status();
    ring_ = std::make_unique<Ring>(*std::move(spool));
    live_ = std::make_unique<LiveRing>(ring_.get());
  }

  WriteResult Write() {
    const Metric row[] = {{"loss", 0.5}};
    return ring_->writer.Write(row, RowStep::Taken(step_++));
  }

  void Mark(uint64_t end, uint64_t rows) {
    v1::SpoolHeader* const header = ring_->spool->header();
    const uint32_t next = header->stored.load() ^ 1;
    header->stored_marks[next].end = end;
    header->stored_marks[next].rows = rows;
    header->stored = next;
  }

  void Advance(int64_t open_step = 0) {
    now_ += std::chrono::milliseconds(100);
    live_->Advance(now_, open_step);
  }

  testing::TempDir dir_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<LiveRing> live_;
  LiveRing::Time now_;
  int64_t step_ = 0;
};

TEST_F(LiveRingTest, FreesWhatTheDaemonHasStored) {
  uint64_t rows = 0;
  while (Write() == WriteResult::kTaken) ++rows;
  Advance();
  EXPECT_EQ(ring_->tail(), 0u);
  EXPECT_FALSE(live_->AllStored());
  EXPECT_NE(ring_->unanswered_since.load(), LiveRing::Time::duration());
  Mark(ring_->head(), rows);
  Advance();
  EXPECT_EQ(ring_->tail(), ring_->head());
  EXPECT_TRUE(live_->AllStored());
  EXPECT_EQ(ring_->durable_rows, rows);
  EXPECT_EQ(ring_->unanswered_since.load(), LiveRing::Time::duration());
  EXPECT_EQ(Write(), WriteResult::kTaken);
}

TEST_F(LiveRingTest, ImpossibleMarkFreesNothing) {
  ASSERT_EQ(Write(), WriteResult::kTaken);
  const uint64_t head = ring_->head();
  for (const uint64_t end : {head + 8, head - 1, uint64_t{1} << 63}) {
    Mark(end, 1);
    Advance();
    EXPECT_EQ(ring_->tail(), 0u) << end;
    EXPECT_EQ(ring_->durable_rows, 0u);
  }
}

TEST_F(LiveRingTest, IdleRingPublishesThePassedSteps) {
  ASSERT_EQ(Write(), WriteResult::kTaken);
  for (int i = 0; i < 25; ++i) Advance(/*open_step=*/40);
  EXPECT_EQ(ring_->spool->header()->least_step, 40);
}

TEST_F(LiveRingTest, IsDoneWhenTheDaemonHasAllOfAClosingRing) {
  ASSERT_EQ(Write(), WriteResult::kTaken);
  ring_->closing = true;
  Advance();
  EXPECT_FALSE(live_->done());
  Mark(ring_->head(), 1);
  Advance();
  EXPECT_TRUE(live_->done());
}

TEST_F(LiveRingTest, DamageIsReportedWhenEarlierRowsAreStored) {
  ASSERT_EQ(Write(), WriteResult::kTaken);
  const uint64_t whole = ring_->head();
  ASSERT_EQ(Write(), WriteResult::kTaken);
  ring_->spool->data()[whole] = std::byte{3};  // the record's size
  Advance();
  EXPECT_EQ(live_->Damage(), nullptr);
  Mark(whole, 1);
  Advance();
  ASSERT_NE(live_->Damage(), nullptr);
}

// The child's copies only, and not what the program has opened with the same numbers.
TEST(OpenSocketsTest, ForkedChildClosesInheritedSockets) {
  int sockets[2], others[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
  const int duplicate = dup(sockets[0]);
  AddSocket(sockets[0], duplicate);
  AddSocket(others[0]);
  ASSERT_EQ(dup2(STDERR_FILENO, others[0]), others[0]);
  EXPECT_TRUE(IsSocket(sockets[0]));
  EXPECT_FALSE(IsSocket(others[0]));
  const pid_t child = fork();
  if (child == 0) {
    CloseInheritedSockets();
    const auto is_open = [](int fd) { return fcntl(fd, F_GETFD) >= 0; };
    _exit(is_open(sockets[0]) || is_open(duplicate) || !is_open(others[0]) ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  CloseSocket(sockets[0]);
  EXPECT_LT(fcntl(sockets[0], F_GETFD), 0);
  CloseSocket(others[0]);
  EXPECT_GE(fcntl(others[0], F_GETFD), 0);
  for (const int fd : {duplicate, sockets[1], others[0], others[1]}) close(fd);
}

}  // namespace
}  // namespace ranklog::internal
