#include "trainer/model/read_back.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace ranklog::trainer {
namespace {

using ::testing::ElementsAre;

TEST(ReadBackTest, CpuStepIsReadImmediately) {
  ReadBack read_back(c10::kCPU);
  read_back.Push(7, at::tensor({1.5f, 2.5f}));
  const auto numbers = read_back.Next();
  ASSERT_TRUE(numbers);
  EXPECT_EQ(numbers->step, 7);
  EXPECT_THAT(numbers->values, ElementsAre(1.5f, 2.5f));
  EXPECT_FALSE(read_back.Next());
}

TEST(ReadBackTest, LaggedStepIsReadAfterNext) {
  ReadBack read_back(c10::kCPU, /*lag=*/1);
  for (int64_t step = 1; step <= 3; ++step) {
    read_back.Push(step, at::tensor({static_cast<float>(step)}));
    const auto numbers = read_back.Next();
    ASSERT_EQ(numbers.has_value(), step > 1) << step;
    if (!numbers) continue;
    EXPECT_EQ(numbers->step, step - 1);
    EXPECT_THAT(numbers->values, ElementsAre(static_cast<float>(step - 1)));
  }
  EXPECT_FALSE(read_back.Next());
  EXPECT_EQ(read_back.Last()->step, 3);
  EXPECT_FALSE(read_back.Last());
}

}  // namespace
}  // namespace ranklog::trainer
