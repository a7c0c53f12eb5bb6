#include "service/daemon/process/watchdog.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "service/base/clock.h"
#include "tests/support/notify_socket.h"
#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

using ::ranklog::testing::NotifySocket;

class WatchdogTest : public ::testing::Test {
 protected:
  const testing::TempDir dir_;
  const NotifySocket systemd_{dir_.File("notify")};
  const absl::Time start_ = SteadyNow();
};

TEST_F(WatchdogTest, PingsSeveralTimesPerLimit) {
  Watchdog watchdog(dir_.File("notify"), absl::Seconds(60));
  int pings = 0;
  for (int second = 0; second < 60; ++second) {
    watchdog.Check(start_ + absl::Seconds(second), "");
    if (systemd_.Take() == "WATCHDOG=1") ++pings;
  }
  EXPECT_EQ(pings, 4);
}

TEST_F(WatchdogTest, HangingLoopStopsPingsUntilRecovery) {
  Watchdog watchdog(dir_.File("notify"), absl::Seconds(60));
  watchdog.Check(start_, "store");
  watchdog.Check(start_ + absl::Seconds(30), "store");
  EXPECT_EQ(systemd_.Take(), "");
  watchdog.Check(start_ + absl::Seconds(31), "");
  EXPECT_EQ(systemd_.Take(), "WATCHDOG=1");
}

TEST_F(WatchdogTest, ReadsTheEnvironment) {
  const auto limit_with = [](const char* us, const std::string& pid) {
    setenv("NOTIFY_SOCKET", "/run/systemd/notify", 1);
    setenv("WATCHDOG_USEC", us, 1);
    setenv("WATCHDOG_PID", pid.c_str(), 1);
    const absl::Duration limit = Watchdog::FromEnvironment().limit();
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
    return limit;
  };
  EXPECT_EQ(limit_with("2000000", std::to_string(getpid())), absl::Seconds(2));
  EXPECT_EQ(limit_with("2000000", std::to_string(getppid())), absl::InfiniteDuration());
  EXPECT_EQ(limit_with("0", std::to_string(getpid())), absl::InfiniteDuration());
  EXPECT_EQ(limit_with("soon", std::to_string(getpid())), absl::InfiniteDuration());
  EXPECT_EQ(Watchdog::FromEnvironment().limit(), absl::InfiniteDuration());
}

TEST_F(WatchdogTest, WithoutWatchdogNoPings) {
  Watchdog watchdog(dir_.File("notify"), absl::InfiniteDuration());
  watchdog.Check(start_, "");
  EXPECT_EQ(systemd_.Take(), "");
}

}  // namespace
}  // namespace ranklog::daemon
