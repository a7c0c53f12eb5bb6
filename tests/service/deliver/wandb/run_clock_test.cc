#include "service/deliver/wandb/history/run_clock.h"

#include <gtest/gtest.h>

namespace ranklog::deliver::wandb {
namespace {

constexpr int64_t kSecond = 1'000'000;

model::Stream Attempt(uint32_t attempt, int64_t begin, int64_t end) {
  model::Stream stream;
  stream.primary = true;
  stream.attempt = attempt;
  stream.started_us = begin * kSecond;
  stream.ended_us = end * kSecond;
  return stream;
}

model::Run RunFrom(int64_t start) {
  model::Run run;
  run.started_us = start * kSecond;
  return run;
}

TEST(RunClockTest, CountsFromTheStart) {
  const RunClock clock(RunFrom(100), {}, 0);
  EXPECT_EQ(clock.RuntimeUs(107 * kSecond), 7 * kSecond);
  EXPECT_EQ(clock.RuntimeUs(90 * kSecond), 0);
}

TEST(RunClockTest, LeavesOutTheTimeBetweenAttempts) {
  const std::vector<model::Stream> streams = {Attempt(1, 100, 110), Attempt(1, 101, 112),
                                              Attempt(2, 1000, 1005), Attempt(3, 2000, 0)};
  const RunClock clock(RunFrom(100), streams, 0);
  EXPECT_EQ(clock.RuntimeUs(105 * kSecond), 5 * kSecond);
  EXPECT_EQ(clock.RuntimeUs(1001 * kSecond), 13 * kSecond);
  EXPECT_EQ(clock.RuntimeUs(2001 * kSecond), 18 * kSecond);
  EXPECT_EQ(clock.InAttemptUs(2001 * kSecond), 1 * kSecond);
}

TEST(RunClockTest, OverlappingAttemptsCountAsOne) {
  const RunClock clock(RunFrom(100), {{Attempt(1, 100, 0), Attempt(2, 1000, 0)}}, 0);
  EXPECT_EQ(clock.RuntimeUs(1001 * kSecond), 901 * kSecond);
}

TEST(RunClockTest, GoesOnFromOtherStores) {
  const RunClock clock(RunFrom(100), {}, 50 * kSecond);
  EXPECT_EQ(clock.RuntimeUs(107 * kSecond), 57 * kSecond);
  EXPECT_EQ(clock.InAttemptUs(107 * kSecond), 7 * kSecond);
}

}  // namespace
}  // namespace ranklog::deliver::wandb
