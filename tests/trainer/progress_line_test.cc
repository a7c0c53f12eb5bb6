#include "trainer/base/progress_line.h"

#include <gmock/gmock.h>

namespace ranklog::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FormatPositionTest, ShowsKnownFiguresAndTimeLeft) {
  Position position{.step = 25,
                    .steps = 100,
                    .loss = 2.5,
                    .lr = 3e-3,
                    .tokens_per_second = 16800.4,
                    .elapsed = absl::Seconds(30)};
  EXPECT_EQ(FormatPosition(position),
            "step 25/100  train/loss 2.500  lr 3.00e-03  16800 tokens/s  1:30 left");
  position.val_loss = 2.25;
  position.val_step = 25;
  position.elapsed = absl::Seconds(3000);
  EXPECT_EQ(
      FormatPosition(position),
      "step 25/100  train/loss 2.500  val/loss 2.250  lr 3.00e-03  16800 tokens/s  2:30:00 left");
  position.step = 100;
  EXPECT_EQ(FormatPosition(position),
            "step 100/100  train/loss 2.500  val/loss 2.250 (step 25)  lr 3.00e-03  16800 tokens/s"
            "  in 50:00");
}

TEST(FormatPositionTest, TimeLeftNeedsSeveralSteps) {
  Position position{.step = 59, .steps = 100, .before = 50, .elapsed = absl::Seconds(9)};
  EXPECT_THAT(FormatPosition(position), Not(HasSubstr("left")));
  position.step = 60;
  EXPECT_THAT(FormatPosition(position), HasSubstr("0:36 left"));
  position = {.step = 51, .steps = 100, .before = 50, .elapsed = absl::Seconds(90)};
  EXPECT_THAT(FormatPosition(position), Not(HasSubstr("left")));
  position.step = 52;
  EXPECT_THAT(FormatPosition(position), HasSubstr("36:00 left"));
}

TEST(FormatPositionTest, TimeLeftIgnoresEarlierStarts) {
  const Position position{.step = 75,
                          .steps = 100,
                          .before = 50,
                          .loss = 2.5,
                          .lr = 3e-3,
                          .tokens_per_second = 100,
                          .elapsed = absl::Seconds(30)};
  EXPECT_EQ(FormatPosition(position),
            "step 75/100  train/loss 2.500  lr 3.00e-03  100 tokens/s  0:30 left");
}

}  // namespace
}  // namespace ranklog::trainer
