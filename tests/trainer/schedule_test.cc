#include "trainer/model/schedule.h"

#include <gtest/gtest.h>

namespace ranklog::trainer {
namespace {

constexpr CosineSchedule kSchedule{.peak = 1.0, .floor = 0.1, .warmup_steps = 10, .steps = 110};

TEST(CosineScheduleTest, RisesLinearlyToThePeak) {
  EXPECT_DOUBLE_EQ(kSchedule.At(1), 0.1);
  EXPECT_DOUBLE_EQ(kSchedule.At(5), 0.5);
  EXPECT_DOUBLE_EQ(kSchedule.At(10), 1.0);
}

TEST(CosineScheduleTest, FallsAlongHalfCosineToFloor) {
  EXPECT_NEAR(kSchedule.At(35), 0.1 + 0.9 * 0.8535533905932737,
              1e-12);                        // a quarter of the way: (1 + cos 45°) / 2
  EXPECT_DOUBLE_EQ(kSchedule.At(60), 0.55);  // half way
  EXPECT_DOUBLE_EQ(kSchedule.At(110), 0.1);
  EXPECT_DOUBLE_EQ(kSchedule.At(1000), 0.1);
}

TEST(CosineScheduleTest, StartsNearPeakWithoutWarmup) {
  const CosineSchedule schedule{.peak = 1.0, .floor = 0.0, .warmup_steps = 0, .steps = 4};
  EXPECT_NEAR(schedule.At(1), 0.8535533905932737, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.At(4), 0.0);
}

TEST(CosineScheduleTest, FullWarmupEndsAtPeak) {
  const CosineSchedule schedule{.peak = 2.0, .floor = 0.0, .warmup_steps = 4, .steps = 4};
  EXPECT_DOUBLE_EQ(schedule.At(4), 2.0);
}

}  // namespace
}  // namespace ranklog::trainer
