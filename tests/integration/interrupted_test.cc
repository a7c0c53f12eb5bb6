// exit() in a signal handler that interrupts one of our calls ends the process in time, whatever
// the daemon does. Every row is kept, and the run records how it ended.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <list>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/kernel.h"

namespace ranklog::testing {
namespace {

using ::testing::AnyOf;

// One second each for Finish() and the tracker, and five to end the sender's thread. The rest is
// for a busy machine. A process that hangs does so for ever.
constexpr absl::Duration kLongestExit = absl::Seconds(40);
constexpr const char* kCalls[] = {"finish", "thread", "flush", "log", "stats", "fork"};
constexpr int kDelaysUs[] = {30, 300, 3'000, 30'000};

struct Interrupted {
  std::string job;
  std::string call;
  ChildProcess rank;
};

class InterruptedTest : public ::testing::Test {
 protected:
  Interrupted Start(const std::string& call, int delay_us, const std::string& finish) {
    const std::string job = absl::StrCat(call, "-", delay_us);
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment(job, 0, 0, 1, 1);
    options.environment.merge(WandbAt(wandb_.url()));
    options.environment["RANKLOG_FINISH"] = finish;
    options.environment["RANKLOG_FINISH_TIMEOUT_MS"] = "1000";
    options.environment["RANKLOG_SPOOL_BYTES"] = "262144";
    return {job, call,
            ChildProcess({INTERRUPTED_RANK, call, std::to_string(delay_us), go_}, options)};
  }

  void Go() { std::ofstream(go_).flush(); }

  void ExpectItsRun(const Interrupted& each) {
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(each.job); })) << each.job;
    const model::Run run = node_.GetRun(each.job);
    // The interrupted row may be there without being counted.
    const auto taken = strtoull(each.rank.Output().c_str() + sizeof "ready", nullptr, 10);
    EXPECT_THAT(run.rows, AnyOf(taken, taken + 1)) << each.job;
    // The signal may have come before Finish() began.
    const bool finished = run.state == model::RunState::kFinished;
    const bool finishes = each.call == "finish" || each.call == "thread";
    EXPECT_TRUE(finishes || !finished) << each.job;
    if (!finished && PidfdReportsExitStatus()) {
      EXPECT_EQ(run.state, model::RunState::kFailed) << each.job << ": " << run.reason;
      EXPECT_EQ(run.exit_code, 3) << each.job;
    }
  }

  TempDir dir_;
  const std::string go_ = dir_.File("go");
  FakeWandb wandb_;
  Node node_;
};

// Parameters: the state of the daemon, and RANKLOG_FINISH.
class InterruptedCallsTest
    : public InterruptedTest,
      public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(InterruptedCallsTest, ExitEndsAndLosesNothing) {
  const auto [daemon, finish] = GetParam();
  wandb_.Inject({.on = FakeWandb::Fault::On::kAny, .times = 1'000'000, .code = 503});
  if (std::string(daemon) == "absent") {
    Go();
  } else {
    node_.Start();
  }
  std::list<Interrupted> all;
  for (const char* call : kCalls) {
    for (int delay_us : kDelaysUs) all.push_back(Start(call, delay_us, finish));
  }
  for (const Interrupted& each : all) {
    ASSERT_TRUE(WaitFor([&] { return each.rank.Output().rfind("ready\n", 0) == 0; })) << each.job;
  }
  if (std::string(daemon) == "stopped") node_.daemon().Signal(SIGSTOP);
  Go();
  const absl::Time deadline = absl::Now() + kLongestExit;
  for (Interrupted& each : all) {
    EXPECT_EQ(each.rank.Wait(std::max(deadline - absl::Now(), absl::ZeroDuration())), 3)
        << each.job << " hangs, or failed: " << each.rank.Output();
  }
  if (std::string(daemon) == "stopped") node_.daemon().Signal(SIGCONT);
  if (std::string(daemon) == "absent") node_.Start();
  for (const Interrupted& each : all) ExpectItsRun(each);
}

INSTANTIATE_TEST_SUITE_P(Daemons, InterruptedCallsTest,
                         ::testing::Combine(::testing::Values("up", "stopped", "absent"),
                                            ::testing::Values("durable", "delivered:1s")),
                         [](const auto& info) {
                           const std::vector<std::string> finish =
                               absl::StrSplit(std::get<1>(info.param), ':');
                           return absl::StrCat("daemon_", std::get<0>(info.param), "_",
                                               finish.front());
                         });

TEST_F(InterruptedTest, ExitDuringLogWaitsForDelivery) {
  node_.Start();
  std::list<Interrupted> all;
  for (int delay_us : kDelaysUs) all.push_back(Start("log", delay_us, "delivered"));
  for (const Interrupted& each : all) {
    ASSERT_TRUE(WaitFor([&] { return each.rank.Output() == "ready\n"; })) << each.job;
  }
  Go();
  for (Interrupted& each : all) {
    EXPECT_EQ(each.rank.Wait(), 3) << each.rank.Output();
    EXPECT_TRUE(wandb_.run(each.job).complete) << each.job;
    ExpectItsRun(each);
  }
}

// The time of RANKLOG_FINISH starts with Finish().
TEST_F(InterruptedTest, ExitDuringFinishContinuesItsWait) {
  wandb_.Inject({.on = FakeWandb::Fault::On::kFileStream, .times = 1'000'000, .code = 503});
  node_.Start();
  Interrupted each = Start("finish", 5'000'000, "delivered:6s");
  ASSERT_TRUE(WaitFor([&] { return each.rank.Output() == "ready\n"; }));
  const absl::Time start = absl::Now();
  Go();
  EXPECT_EQ(each.rank.Wait(), 3) << each.rank.Output();
  EXPECT_GE(absl::Now() - start, absl::Seconds(6));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  ExpectItsRun(each);
}

}  // namespace
}  // namespace ranklog::testing
