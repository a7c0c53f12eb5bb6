#include "service/ui/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ranklog::ui {
namespace {

using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;

TEST(ParamsTest, DecodesNamesAndValues) {
  const Params params = Params::Parse("run=0-12&metric=train%2Floss&metric=a+b%26&%6d=%e4%");
  EXPECT_EQ(params.Get("run"), "0-12");
  EXPECT_THAT(params.All("metric"), ElementsAre("train/loss", "a b&"));
  EXPECT_EQ(params.Get("m"), "\xe4%");
  EXPECT_EQ(params.Get("absent"), "");
}

TEST(ParamsTest, MalformedTextsAreHarmless) {
  for (const char* const text : {"", "&", "=", "a", "%", "%4", "a=%zz", "&&=&a=="}) {
    EXPECT_EQ(Params::Parse(text).Get("b"), "") << text;
  }
}

TEST(ParamsTest, NumbersAreWhole) {
  const Params params = Params::Parse("a=12&b=-3&c=1.5&d=x");
  EXPECT_THAT(params.Number("a", 7), IsOkAndHolds(12));
  EXPECT_THAT(params.Number("b", 7), IsOkAndHolds(-3));
  EXPECT_THAT(params.Number("absent", 7), IsOkAndHolds(7));
  EXPECT_THAT(params.Number("c", 7), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(params.Number("d", 7), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ranklog::ui
