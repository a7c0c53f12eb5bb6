// After days, an aggregator holds no more memory than after an hour.

#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>

#include "tests/service/aggregate/run_aggregator_fixture.h"

namespace ranklog::aggregate {
namespace {

constexpr int kSecondsOfADay = 24 * 60 * 60;
// More than the memory that vectors and tables keep for reuse. A container that keeps eight bytes
// per round grows by 2 MiB in three days, at one round per second.
constexpr int64_t kMostGrowth = 128 << 10;

// For the whole process, and so for every container.
int64_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class RunAggregatorDaysTest : public RunAggregatorTest {
 protected:
  // Calls `round(n)` and advances, once a second. Returns how much memory grows between the end of
  // the first hour and the end of the third day.
  int64_t GrowthOverDays(const std::function<void(int64_t)>& round) {
    constexpr int64_t kRounds = 3 * kSecondsOfADay;
    constexpr int64_t kWarm = 60 * 60;
    int64_t before = 0;
    for (int64_t n = 0; n < kRounds; ++n) {
      if (n == kWarm) before = AllocatedBytes();
      round(n);
      now_ += absl::Seconds(1);
      // Does not store them in stored_, which stands for the disk.
      made_ += aggregator_->Advance(now_).batches.size();
    }
    return AllocatedBytes() - before;
  }

  size_t made_ = 0;
};

TEST_F(RunAggregatorDaysTest, RanksInStepUseBoundedMemory) {
  StartTwo();
  EXPECT_LT(GrowthOverDays([this](int64_t n) {
              Log(kPrimary, n, 1);
              Log(kOther, n, 2);
            }),
            kMostGrowth);
  EXPECT_GT(made_, 250'000u);
}

TEST_F(RunAggregatorDaysTest, PrimaryAloneUsesBoundedMemory) {
  Start();
  Join(kPrimary, 0, true);
  EXPECT_LT(GrowthOverDays([this](int64_t n) { Log(kPrimary, n, 1); }), kMostGrowth);
}

TEST_F(RunAggregatorDaysTest, LaggingRankUsesBoundedMemory) {
  StartTwo();
  EXPECT_LT(GrowthOverDays([this](int64_t n) {
              Log(kPrimary, n, 1);
              if (n >= 20) Log(kOther, n - 20, 2);
            }),
            kMostGrowth);
}

TEST_F(RunAggregatorDaysTest, PrimaryWithoutRowsUsesBoundedMemory) {
  StartTwo();
  EXPECT_LT(GrowthOverDays([this](int64_t n) {
              Progress(kPrimary, n);
              Log(kOther, n, 2);
            }),
            kMostGrowth);
}

}  // namespace
}  // namespace ranklog::aggregate
