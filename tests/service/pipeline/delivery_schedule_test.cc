#include "service/pipeline/delivery/delivery_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ranklog::pipeline {
namespace {

using ::testing::ElementsAre;

constexpr bool kLive = true;
constexpr bool kEnded = false;

class DeliveryScheduleTest : public ::testing::Test {
 protected:
  void Put(int64_t run, int due, bool live) { schedule_.Put({run, "wandb"}, At(due), live); }
  static absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
  // Takes all runs that are due at that time.
  std::vector<int64_t> TakeAll(int now) {
    std::vector<int64_t> runs;
    while (auto key = schedule_.Take(At(now))) runs.push_back(key->first);
    return runs;
  }

  DeliverySchedule schedule_;
};

TEST_F(DeliveryScheduleTest, TakesNothingBeforeItIsDue) {
  EXPECT_EQ(schedule_.Next(), absl::InfiniteFuture());
  Put(1, 10, kEnded);
  Put(2, 5, kLive);
  EXPECT_EQ(schedule_.Next(), At(5));
  EXPECT_THAT(TakeAll(4), ElementsAre());
  EXPECT_THAT(TakeAll(5), ElementsAre(2));
  EXPECT_EQ(schedule_.Next(), At(10));
  EXPECT_THAT(TakeAll(10), ElementsAre(1));
}

TEST_F(DeliveryScheduleTest, OldestBacklogGoesFirst) {
  Put(3, 1, kEnded);
  Put(1, 3, kEnded);
  Put(2, 2, kEnded);
  EXPECT_THAT(TakeAll(3), ElementsAre(1, 2, 3));
}

// They wait for the same server, and got their delays at different times.
TEST_F(DeliveryScheduleTest, BacklogsDueTogetherKeepTheirOrder) {
  for (int64_t run : {1, 2, 3}) {
    schedule_.Put({run, "wandb"}, At(1) - run * absl::Microseconds(100), kEnded);
  }
  Put(0, 2, kEnded);
  EXPECT_EQ(schedule_.Take(At(1) - absl::Microseconds(300))->first, 1);
  EXPECT_THAT(TakeAll(1), ElementsAre(2, 3));
}

TEST_F(DeliveryScheduleTest, LongestDueLiveRunGoesFirst) {
  Put(1, 3, kLive);
  Put(2, 2, kLive);
  Put(3, 1, kLive);
  EXPECT_THAT(TakeAll(3), ElementsAre(3, 2, 1));
}

TEST_F(DeliveryScheduleTest, LiveRunsAndBacklogsTakeTurns) {
  for (int64_t run : {1, 2, 3, 4}) Put(run, 0, kEnded);
  for (int64_t run : {5, 6}) Put(run, 0, kLive);
  EXPECT_THAT(TakeAll(0), ElementsAre(5, 1, 6, 2, 3, 4));
}

TEST_F(DeliveryScheduleTest, TurnsContinueWhenAlwaysDue) {
  std::vector<int64_t> taken;
  for (int i = 0; i < 6; ++i) {
    for (int64_t run : {1, 2}) Put(run, 0, kEnded);
    Put(3, 0, kLive);
    taken.push_back(schedule_.Take(At(0))->first);
  }
  EXPECT_THAT(taken, ElementsAre(3, 1, 3, 1, 3, 1));
}

TEST_F(DeliveryScheduleTest, LastPutDecidesTheSlot) {
  Put(1, 0, kEnded);
  Put(2, 0, kEnded);
  ASSERT_EQ(schedule_.Take(At(0))->first, 1);  // it saw that 2 is due
  Put(2, 7, kEnded);
  EXPECT_EQ(schedule_.DueOf({2, "wandb"}), At(7));
  EXPECT_THAT(TakeAll(6), ElementsAre());
  Put(2, 6, kLive);
  EXPECT_THAT(TakeAll(6), ElementsAre(2));
  EXPECT_EQ(schedule_.DueOf({2, "wandb"}), absl::nullopt);
}

TEST_F(DeliveryScheduleTest, ForgetsWhatIsRemoved) {
  Put(1, 0, kEnded);
  Put(2, 0, kLive);
  schedule_.Remove({1, "wandb"});
  schedule_.Remove({2, "wandb"});
  schedule_.Remove({3, "wandb"});
  EXPECT_THAT(TakeAll(0), ElementsAre());
  EXPECT_EQ(schedule_.Next(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace ranklog::pipeline
