#include "service/model/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::model {
namespace {

using ::testing::Optional;

TEST(RunStateTest, IsParsedFromItsName) {
  for (RunState state :
       {RunState::kRunning, RunState::kFinished, RunState::kFailed, RunState::kCrashed}) {
    EXPECT_THAT(ParseRunState(Name(state)), Optional(state));
  }
  EXPECT_EQ(Name(RunState::kCrashed), "crashed");
  EXPECT_FALSE(ParseRunState("dead").has_value());
}

}  // namespace
}  // namespace ranklog::model
