#include "service/deliver/wandb/history/line_steps.h"

#include <gtest/gtest.h>

#include <string>

namespace ranklog::deliver::wandb {
namespace {

// A row with a given step, or one whose step was counted.
model::Block RowAt(int64_t step, bool counted) {
  model::Block row;
  row.counted = counted;
  row.steps = {step};
  return row;
}
model::Block Given(int64_t step) { return RowAt(step, /*counted=*/false); }
model::Block Counted(int64_t step) { return RowAt(step, /*counted=*/true); }

class LineStepsTest : public ::testing::Test {
 protected:
  // Returns the step of the row's line; "replay" if it has no line.
  std::string StepOf(const model::Block& row) {
    return steps_.IsReplay(row, 0) ? "replay" : std::to_string(steps_.Take(row, 0));
  }
  LineSteps steps_;
};

TEST_F(LineStepsTest, DefaultToStepsOfRows) {
  EXPECT_EQ(StepOf(Counted(0)), "0");
  EXPECT_EQ(StepOf(Given(7)), "7");
  EXPECT_EQ(StepOf(Counted(8)), "8");
  EXPECT_EQ(StepOf(Given(5)), "5") << "not ours to judge";
}

TEST_F(LineStepsTest, ExplicitExistingStepsAreReplays) {
  steps_.SetFirstStep(99);
  EXPECT_EQ(StepOf(Given(98)), "replay");
  EXPECT_EQ(StepOf(Given(99)), "replay");
  EXPECT_EQ(StepOf(Given(100)), "100");
}

TEST_F(LineStepsTest, RowsWithoutStepContinueExistingSteps) {
  steps_.SetFirstStep(99);
  EXPECT_EQ(StepOf(Counted(0)), "100");
  EXPECT_EQ(StepOf(Counted(2)), "102") << "the run has a row without metrics at 1";
  EXPECT_EQ(StepOf(Given(50)), "replay");
  EXPECT_EQ(StepOf(Given(102)), "replay") << "as in one store, where it would be late";
  EXPECT_EQ(StepOf(Given(110)), "110");
  EXPECT_EQ(StepOf(Counted(111)), "111") << "counted on from the run's own";
}

TEST_F(LineStepsTest, RowWithoutStepIsNeverReplay) {
  steps_.SetFirstStep(99);
  EXPECT_EQ(StepOf(Given(80)), "replay");
  EXPECT_EQ(StepOf(Counted(81)), "100");
  EXPECT_EQ(StepOf(Counted(82)), "101");
}

TEST_F(LineStepsTest, FirstStepNeverDecreases) {
  steps_.SetFirstStep(99);
  steps_.SetFirstStep(59);
  EXPECT_EQ(StepOf(Given(80)), "replay");
}

}  // namespace
}  // namespace ranklog::deliver::wandb
