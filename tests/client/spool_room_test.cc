#include "client/ring/spool/spool_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ranklog/v1/spool_layout.h"
#include "tests/client/scheduler.h"

namespace ranklog::internal {
namespace {

using ::ranklog::testing::Atomic;
using ::ranklog::testing::Scheduler;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kKiB = 1 << 10;
constexpr size_t kLeast = v1::kMinRingBytes;

v1::Identity Thread(uint32_t thread, uint32_t ranks = 0) {
  v1::Identity identity;
  identity.set_thread(thread);
  identity.set_local_world_size(ranks);
  return identity;
}

TEST(SpoolRoomTest, RingsShareQuarterOfTotalRoom) {
  EXPECT_EQ(SpoolRoom::Of(/*free=*/60 * kMiB, /*used=*/4 * kMiB).share, 16 * kMiB);
  EXPECT_FALSE(SpoolRoom::Of(48 * kMiB, 16 * kMiB).IsOverfull());
  EXPECT_TRUE(SpoolRoom::Of(47 * kMiB, 17 * kMiB).IsOverfull());
}

TEST(SpoolRoomTest, FirstRingGetsHalfOfShare) {
  const SpoolRoom room = SpoolRoom::Of(64 * kMiB, 0);
  EXPECT_EQ(FittingBytes(room, 8 * kMiB, kLeast, Thread(0)), 8 * kMiB);
  EXPECT_EQ(FittingBytes(room, 8 * kMiB, kLeast, Thread(0, /*ranks=*/8)), kMiB);
  EXPECT_EQ(FittingBytes(room, 8 * kMiB, kLeast, Thread(1)), 2 * kMiB);
  EXPECT_EQ(FittingBytes(SpoolRoom::Of(50 * kMiB, 14 * kMiB), 8 * kMiB, kLeast, Thread(0)), kMiB);
}

TEST(SpoolRoomTest, RingBelowMinimumIsNotMade) {
  EXPECT_EQ(FittingBytes(SpoolRoom::Of(512 * kKiB, 0), kMiB, kLeast, Thread(0)), 64 * kKiB);
  EXPECT_EQ(FittingBytes(SpoolRoom::Of(511 * kKiB, 0), kMiB, kLeast, Thread(0)), 0u);
  EXPECT_EQ(FittingBytes(SpoolRoom::Of(48 * kMiB, 16 * kMiB), kMiB, kLeast, Thread(0)), 0u);
}

// Otherwise a ring sized by the quick check would be too large.
TEST(SpoolRoomTest, QuickCheckNeverOverestimatesRoom) {
  for (const uint64_t rings : {uint64_t{0}, 10 * kMiB, 100 * kMiB}) {
    for (const uint64_t others : {uint64_t{0}, 50 * kMiB, 5000 * kMiB}) {
      const SpoolRoom room = SpoolRoom::Of(200 * kMiB, rings);
      const SpoolRoom quick = SpoolRoom::AtLeast(200 * kMiB, rings + others);
      EXPECT_LE(quick.share, room.share);
      EXPECT_GE(quick.used, room.used);
    }
  }
}

// A directory in which processes make rings at the same time, in every order of their checks and
// changes.
class SpoolRaceTest : public ::testing::Test {
 protected:
  struct Result {
    std::string error;
    size_t least = SIZE_MAX;  // smallest ring of all orders
    size_t most_left = 0;     // most processes that left, in one order
    int orders = 0;
  };

  Result Race(size_t processes, uint64_t free, size_t wanted, const v1::Identity& identity) {
    Result result;
    Scheduler scheduler(/*most_switches=*/2, [](size_t) {});
    const auto prepare = [&] {
      std::vector<Scheduler::Thread> threads;
      directory_ = std::make_unique<Directory>();
      for (size_t i = 0; i < processes; ++i) {
        threads.push_back({"process " + std::to_string(i),
                           [=, this] { MakeRing(free, wanted, identity, &directory_->rings[i]); }});
      }
      return threads;
    };
    const auto check = [&]() -> std::string {
      uint64_t used = 0;
      size_t left = 0;
      for (const uint64_t ring : directory_->rings) {
        used += ring;
        if (ring > 0) result.least = std::min(result.least, ring - v1::kSpoolDataOffset);
      }
      for (size_t i = 0; i < processes; ++i) left += directory_->rings[i] == 0 ? 1 : 0;
      result.most_left = std::max(result.most_left, left);
      return used > free / 4 ? "the rings take " + std::to_string(used) : "";
    };
    result.error = scheduler.Explore(prepare, check);
    result.orders = scheduler.orders();
    return result;
  }

 private:
  struct Directory {
    Atomic<int> access = 0;  // a switch may come before each check and change
    uint64_t rings[4] = {};
  };

  // Does what Spool does.
  void MakeRing(uint64_t free, size_t wanted, const v1::Identity& identity, uint64_t* ring) {
    const auto look = [&] {
      directory_->access.load();
      uint64_t used = 0;
      for (const uint64_t other : directory_->rings) used += other;
      return SpoolRoom::Of(free - used, used);
    };
    const auto resize = [&](size_t bytes) {
      directory_->access.fetch_add(1);
      *ring = bytes == 0 ? 0 : v1::kSpoolDataOffset + bytes;
      return true;
    };
    const size_t bytes = FittingBytes(look(), wanted, kLeast, identity);
    resize(bytes);
    if (bytes > 0 && SettledBytes(bytes, kLeast, look, resize) == 0) resize(0);
  }

  std::unique_ptr<Directory> directory_;
};

TEST_F(SpoolRaceTest, ConcurrentRingsStayWithinQuarter) {
  const Result result = Race(3, 64 * kMiB, 8 * kMiB, Thread(0));
  EXPECT_THAT(result.error, IsEmpty());
  EXPECT_GT(result.orders, 100);
  EXPECT_GE(result.least, kMiB);
  EXPECT_LE(result.most_left, 1u);  // a process that checks while two others have not settled
}

// Each ring was halved as often as possible and then stayed, though all together were too large.
TEST_F(SpoolRaceTest, RingThatCannotShrinkLeaves) {
  const Result result = Race(4, 1200 * kKiB, 8 * kMiB, Thread(0));
  EXPECT_THAT(result.error, IsEmpty());
  EXPECT_GE(result.least, 64 * kKiB);
  EXPECT_GT(result.most_left, 0u);
}

TEST_F(SpoolRaceTest, KnownRankCountAvoidsRaces) {
  const Result result = Race(4, 64 * kMiB, 8 * kMiB, Thread(0, /*ranks=*/4));
  EXPECT_THAT(result.error, IsEmpty());
  EXPECT_EQ(result.least, 2 * kMiB);
  EXPECT_EQ(result.most_left, 0u);
}

}  // namespace
}  // namespace ranklog::internal
