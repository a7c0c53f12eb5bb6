#include "service/deliver/wandb/history/branch_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ranklog::deliver::wandb {
namespace {

using ranklog::testing::StatusIs;

TEST(BranchPointTest, IsARunAndAStep) {
  ASSERT_OK_AND_ASSIGN(const BranchPoint point, ParseBranchPoint("1mwk0j5x?_step=200"));
  EXPECT_EQ(point.run_id, "1mwk0j5x");
  EXPECT_EQ(point.step, 200);
}

TEST(BranchPointTest, OtherTextsAreRefused) {
  for (const char* const text :
       {"", "run", "?_step=1", "run?_step=", "run?_step=-1", "run?_step=1.5", "run?step=1",
        "run?_step=9223372036854775807", "run?loss=1"}) {
    EXPECT_THAT(ParseBranchPoint(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace ranklog::deliver::wandb
