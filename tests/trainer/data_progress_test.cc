#include "trainer/data/data_progress.h"

#include <gmock/gmock.h>

namespace ranklog::trainer {
namespace {

class DataProgressTest : public ::testing::Test {
 protected:
  DataProgress Make(bool terminal, bool shown = true) {
    return DataProgress(
        shown, terminal, [this](const std::string& text) { written_ += text; },
        [this] { return now_; });
  }
  void Pass(absl::Duration time) { now_ += time; }

  absl::Time now_ = absl::UnixEpoch();
  std::string written_;
};

TEST_F(DataProgressTest, LogGetsLineEveryTenPercent) {
  DataProgress progress = Make(/*terminal=*/false);
  for (int i = 0; i <= 100; ++i, Pass(absl::Seconds(1))) progress.Show("tokenizing x", i, 400);
  EXPECT_EQ(written_, "tokenizing x: 10 %\ntokenizing x: 20 %\n");
}

TEST_F(DataProgressTest, AShortPartIsSilent) {
  DataProgress progress = Make(/*terminal=*/false);
  for (int i = 0; i <= 100; ++i, Pass(absl::Milliseconds(19))) progress.Show("x", i, 100);
  EXPECT_EQ(written_, "");
}

// WriteMessage() replaces an unfinished line.
TEST_F(DataProgressTest, TerminalLineStaysUnfinished) {
  DataProgress progress = Make(/*terminal=*/true);
  progress.Show("x", 1, 100);
  Pass(absl::Seconds(2));
  progress.Show("x", 2, 100);
  Pass(absl::Milliseconds(1));
  progress.Show("x", 3, 100);
  progress.Print("done");
  EXPECT_EQ(written_, "x: 2 %done\n");
}

TEST_F(DataProgressTest, OtherRanksShowNothing) {
  DataProgress progress = Make(/*terminal=*/false, /*shown=*/false);
  progress.Print("line");
  progress.Show("x", 0, 1);
  Pass(absl::Seconds(3));
  progress.Show("x", 1, 1);
  EXPECT_EQ(written_, "");
}

}  // namespace
}  // namespace ranklog::trainer
