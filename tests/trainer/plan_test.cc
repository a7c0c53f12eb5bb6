#include "trainer/plan.h"

#include <gtest/gtest.h>

namespace ranklog::trainer {
namespace {

TEST(PlanTest, StepsAreTheOptions) {
  Options options;
  options.steps = 50;
  const Plan plan = MakePlan(options, 20);
  EXPECT_EQ(plan.steps, 50);
  EXPECT_EQ(plan.steps_per_epoch, 20);
  EXPECT_DOUBLE_EQ(plan.Epoch(50), 2.5);
}

TEST(PlanTest, EpochsGiveTheSteps) {
  Options options;
  options.epochs = 3;
  options.grad_accum = 4;
  const Plan plan = MakePlan(options, 10);
  EXPECT_EQ(plan.steps_per_epoch, 3);
  EXPECT_EQ(plan.steps, 9);
  EXPECT_DOUBLE_EQ(plan.Epoch(9), 3);
}

TEST(PlanTest, CheckpointsFollowEpochsByDefault) {
  Options options;
  EXPECT_EQ(MakePlan(options, 10).save_every, 500);
  options.epochs = 3;
  EXPECT_EQ(MakePlan(options, 10).save_every, 10);
  options.save_every = 0;
  EXPECT_EQ(MakePlan(options, 10).save_every, 0);
}

TEST(PlanTest, LastStepOfEpochTakesRemainder) {
  Options options;
  options.epochs = 2;
  options.grad_accum = 4;
  const Plan plan = MakePlan(options, 10);
  int64_t batches = 0;
  for (int64_t step = 1; step <= plan.steps; ++step) batches += plan.MicroBatches(step);
  EXPECT_EQ(batches, 20);
  EXPECT_EQ(plan.MicroBatches(2), 4);
  EXPECT_EQ(plan.MicroBatches(3), 2);
  EXPECT_EQ(plan.MicroBatches(4), 4);
}

TEST(PlanTest, WarmupIsATenthWithinLimits) {
  Options options;
  const auto warmup = [&](int64_t steps) {
    options.steps = steps;
    return MakePlan(options, 1).warmup_steps;
  };
  EXPECT_EQ(warmup(10), 5);
  EXPECT_EQ(warmup(50), 20);
  EXPECT_EQ(warmup(800), 80);
  EXPECT_EQ(warmup(100000), 200);
  options.warmup_steps = 0;
  EXPECT_EQ(warmup(800), 0);
}

TEST(PlanTest, ValidatesPeriodicallyAndAtEnd) {
  Options options;
  options.steps = 5;
  options.val_every = 2;
  const Plan plan = MakePlan(options, 100);
  EXPECT_FALSE(plan.Validates(1));
  EXPECT_TRUE(plan.Validates(2));
  EXPECT_FALSE(plan.Validates(3));
  EXPECT_TRUE(plan.Validates(5));
  options.val_every = 0;
  EXPECT_FALSE(MakePlan(options, 100).Validates(5));
}

TEST(PlanTest, EpochsValidateAtTheirEnds) {
  Options options;
  options.epochs = 2;
  const Plan plan = MakePlan(options, 60);
  EXPECT_FALSE(plan.Validates(50));
  EXPECT_TRUE(plan.Validates(60));
  EXPECT_TRUE(plan.Validates(120));
}

}  // namespace
}  // namespace ranklog::trainer
