// Converts the counter's ticks to Unix time, while clocks are set and the machine sleeps.

#include "client/ring/ticks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace ranklog::internal {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;  // ns

ClockSample now;  // the values of all clocks

ClockSample ReadNow() { return now; }

// The counter has two ticks per nanosecond.
class TickRateTest : public ::testing::Test {
 protected:
  TickRateTest() {
    now = {.ticks = 1000, .monotonic_ns = 5 * kSecond, .unix_ns = 1'800'000'000 * kSecond};
  }

  static void Pass(uint64_t ns) {
    now.ticks += 2 * ns;
    now.monotonic_ns += ns;
    now.unix_ns += ns;
  }
  void Calibrate() {
    rate_->Measure();
    rate_->Calibrate(&header_);
  }
  void Start() {
    rate_.emplace(ReadNow);
    Pass(2'000'000);
    Calibrate();
  }
  // Returns the error of the time of a row logged now, in microseconds.
  int64_t ErrorUs() {
    return TickReader(header_).UnixMicros(now.ticks) - static_cast<int64_t>(now.unix_ns / 1000);
  }

  std::optional<TickRate> rate_;
  v1::SpoolHeader header_{};
};

TEST_F(TickRateTest, FollowsTheCounter) {
  Start();
  Pass(kSecond);
  EXPECT_NEAR(static_cast<double>(ErrorUs()), 0, 1);
}

TEST_F(TickRateTest, ClockThatIsSetIsFollowed) {
  Start();
  Pass(kSecond);
  now.unix_ns -= 3600 * kSecond;
  Calibrate();
  Pass(kSecond / 2);
  EXPECT_NEAR(static_cast<double>(ErrorUs()), 0, 1);
}

TEST_F(TickRateTest, RateImprovesWithLongerMeasurement) {
  rate_.emplace(ReadNow);
  Pass(1'000'000);
  now.ticks += 20'000;  // 1 % too many
  Calibrate();
  for (int i = 0; i < 20; ++i) {
    Pass(kSecond);
    Calibrate();
  }
  Pass(kSecond);
  EXPECT_NEAR(static_cast<double>(ErrorUs()), 0, 1000);
}

// The counter continues during sleep; the steady clock does not.
TEST_F(TickRateTest, MachineSleepKeepsRate) {
  Start();
  for (int i = 0; i < 10; ++i) {
    Pass(kSecond);
    Calibrate();
  }
  now.ticks += 2 * 3600 * kSecond;
  now.unix_ns += 3600 * kSecond;
  Calibrate();
  for (int i = 0; i < 3; ++i) {
    Pass(kSecond);
    EXPECT_NEAR(static_cast<double>(ErrorUs()), 0, 1);
    Calibrate();
  }
}

TEST_F(TickRateTest, CounterResetKeepsRate) {
  Start();
  Pass(kSecond);
  Calibrate();
  now.ticks = 0;
  Calibrate();
  for (int i = 0; i < 3; ++i) {
    Pass(kSecond);
    EXPECT_NEAR(static_cast<double>(ErrorUs()), 0, 1);
    Calibrate();
  }
}

TEST_F(TickRateTest, EarlyCounterResetKeepsRate) {
  now.ticks = uint64_t{1} << 62;
  Start();
  now.ticks = 0;
  Calibrate();
  for (int i = 0; i < 3; ++i) {
    Pass(kSecond);
    EXPECT_NEAR(static_cast<double>(ErrorUs()), 0, 1);
    Calibrate();
  }
}

}  // namespace
}  // namespace ranklog::internal
