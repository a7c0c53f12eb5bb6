#include "service/base/pulse.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"

namespace ranklog {
namespace {

constexpr absl::Duration kHour = absl::Hours(1);

// Whether the loop would count as hanging if nothing happened for an hour.
bool IsInTurn(const Pulse& pulse) { return pulse.Silence(SteadyNow() + kHour) >= kHour; }

TEST(PulseTest, StoppedLoopIsAtRest) {
  Pulse pulse;
  EXPECT_FALSE(IsInTurn(pulse));
  { const Pulse::Loop loop(&pulse); }
  EXPECT_FALSE(IsInTurn(pulse));
}

TEST(PulseTest, SilenceCountsFromTheLastBeat) {
  Pulse pulse;
  const Pulse::Loop loop(&pulse);
  EXPECT_TRUE(IsInTurn(pulse));
  const absl::Time before = SteadyNow();
  Pulse::Beat();
  const absl::Time after = SteadyNow();
  EXPECT_LE(pulse.Silence(before + kHour), kHour);
  EXPECT_GE(pulse.Silence(after + kHour), kHour);
}

TEST(PulseTest, RestEndsWithABeat) {
  Pulse pulse;
  const Pulse::Loop loop(&pulse);
  absl::Time end;
  {
    const Pulse::Rest rest;
    EXPECT_FALSE(IsInTurn(pulse));
    end = SteadyNow();
  }
  EXPECT_TRUE(IsInTurn(pulse));
  EXPECT_LE(pulse.Silence(end + kHour), kHour);
}

TEST(PulseTest, EachThreadHasItsOwnPulse) {
  Pulse pulse;
  const Pulse::Loop loop(&pulse);
  Pulse other;
  std::thread thread([&] {
    { const Pulse::Rest rest; }
    Pulse::Beat();  // belongs to no loop
    EXPECT_FALSE(IsInTurn(other));
    const Pulse::Loop its_loop(&other);
    const Pulse::Rest rest;
    EXPECT_TRUE(IsInTurn(pulse));
    EXPECT_FALSE(IsInTurn(other));
  });
  thread.join();
  EXPECT_FALSE(IsInTurn(other));
}

}  // namespace
}  // namespace ranklog
