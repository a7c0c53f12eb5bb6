// If any loop of the daemon hangs, systemd gets no more pings, and restarts the daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/notify_socket.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

struct Hang {
  const char* point;  // of FaultPoint()
  int passage;
  const char* loop;
};

void PrintTo(const Hang& hang, std::ostream* out) { *out << hang.point; }

class WatchdogTest : public ::testing::Test {
 protected:
  std::map<std::string, std::string> Watched(absl::Duration limit) const {
    return {{"NOTIFY_SOCKET", dir_.File("notify")},
            {"WATCHDOG_USEC", absl::StrCat(absl::ToInt64Microseconds(limit))}};
  }
  // Returns how often "WATCHDOG=1" came since the last call.
  int Pings() const {
    int pings = 0;
    for (std::string text = systemd_.Take(); !text.empty(); text = systemd_.Take()) {
      if (text == "WATCHDOG=1") ++pings;
    }
    return pings;
  }

  TempDir dir_;
  const NotifySocket systemd_{dir_.File("notify")};
  FakeWandb wandb_;
  Node node_{{"--transmit-interval", "20ms"}};
};

class HangTest : public WatchdogTest, public ::testing::WithParamInterface<Hang> {};

TEST_P(HangTest, HangingLoopEndsThePings) {  // S35
  std::map<std::string, std::string> environment = Watched(absl::Seconds(1));
  environment["RANKLOG_DIE_AT"] = absl::StrCat(GetParam().point, ":", GetParam().passage, ":hang");
  node_.StartWith(environment);
  ASSERT_TRUE(WaitFor([&] { return Pings() > 0; }));
  const ChildProcess rank =
      node_.StartRank("job", 0, 0, 1, 1, {"100000", "0", "1000"}, WandbAt(wandb_.url()));
  ASSERT_TRUE(WaitFor([&] {
    return node_.LogCount(absl::StrCat("the ", GetParam().loop, " loop has been hanging for ")) ==
           1;
  }));
  Pings();
  absl::SleepFor(absl::Milliseconds(600));  // two pings would have come
  EXPECT_EQ(Pings(), 0);
}

INSTANTIATE_TEST_SUITE_P(Loops, HangTest,
                         ::testing::Values(Hang{"commit", 5, "store"},
                                           Hang{"aggregate", 2, "aggregate"},
                                           Hang{"send", 2, "deliver"},
                                           Hang{"scan", 2, "rank watch"},
                                           Hang{"accept", 2, "accept"}));

// The time is spent in the tracker, not in the daemon.
TEST_F(WatchdogTest, SlowTrackerIsNoHang) {
  wandb_.Inject({.on = FakeWandb::Fault::On::kAny, .act = true, .delay = absl::Seconds(4)});
  node_.StartWith(Watched(absl::Seconds(3)));
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {"100"}, WandbAt(wandb_.url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(wandb_.WaitForEnd("job", absl::Seconds(30)));
  EXPECT_EQ(node_.LogCount("hanging"), 0u);
  EXPECT_GT(Pings(), 4);
}

}  // namespace
}  // namespace ranklog::testing
