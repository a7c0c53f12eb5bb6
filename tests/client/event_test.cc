#include "client/base/event.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

TEST(EventTest, WaitEndsOnceAnotherThreadNotifies) {
  Event event;
  const uint32_t seen = event.Count();
  std::thread other([&] { event.NotifyAll(); });
  while (event.Count() == seen) event.WaitUntil(seen, Clock::now() + std::chrono::hours(1));
  other.join();
}

TEST(EventTest, EarlyNotificationIsNotMissed) {
  Event event;
  const uint32_t seen = event.Count();
  event.NotifyAll();
  event.WaitUntil(seen, Clock::now() + std::chrono::hours(1));
  EXPECT_NE(event.Count(), seen);
}

TEST(EventTest, WaitEndsAtItsDeadline) {
  const Event event;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(2);
  while (Clock::now() < deadline) event.WaitUntil(event.Count(), deadline);
  event.WaitUntil(event.Count(), Clock::time_point::min());
}

}  // namespace
}  // namespace ranklog::internal
