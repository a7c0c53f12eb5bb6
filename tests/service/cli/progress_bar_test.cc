#include "service/cli/output/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

Terminal Wide(int width) {
  Terminal terminal;
  terminal.width = width;
  return terminal;
}

TEST(ProgressBarTest, ShowsCompletedFraction) {
  EXPECT_EQ(BarText("export", 500, 1000, Wide(42)), "export [########........]  50%  500/1000");
}

TEST(ProgressBarTest, ReachesHundredPercentOnlyWhenDone) {
  EXPECT_THAT(BarText("sync", 999999, 1000000, Wide(80)), HasSubstr(" 99%  "));
  EXPECT_THAT(BarText("sync", 1000000, 1000000, Wide(80)), HasSubstr("100%  "));
  EXPECT_THAT(BarText("sync", 0, 0, Wide(80)), HasSubstr("100%  "));
}

TEST(ProgressBarTest, KeepsFiguresWithoutRoomForBar) {
  EXPECT_THAT(BarText("sync", 1, 4, Wide(10)), EndsWith("25%  1/4"));
}

TEST(ProgressBarTest, ShowsGivenFigures) {
  EXPECT_EQ(BarText("sync", 1, 2, Wide(34), "3 of 6 MiB"), "sync [####....]  50%  3 of 6 MiB");
}

TEST(ProgressBarTest, StaysOnOneLine) {
  for (int width = 30; width < 120; ++width) {
    EXPECT_LT(TextWidth(BarText("export", 12345, 99999, Wide(width))), width);
  }
}

}  // namespace
}  // namespace ranklog::cli
