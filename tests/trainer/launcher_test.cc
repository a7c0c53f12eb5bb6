#include "trainer/parallel/launcher.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/time/clock.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LaunchTest : public ::testing::Test {
 protected:
  static absl::Status Launch(const LaunchOptions& options) {
    int received = 0;
    return trainer::Launch(options, &received);
  }
  // Options for ranks that run `script` in the test's directory.
  LaunchOptions Shell(const std::string& script, int ranks = 2) {
    return {.command = {"/bin/sh", "-c", "cd " + dir_.path() + "; " + script},
            .ranks = ranks,
            .master_port = 1234,
            .grace = absl::Seconds(20)};
  }
  std::string Read(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(dir_.File(name)).rdbuf();
    return text.str();
  }

  ranklog::testing::TempDir dir_;
};

TEST_F(LaunchTest, GivesEachRankTorchrunsVariables) {
  ASSERT_OK(Launch(Shell(
      "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR $MASTER_PORT "
      "$OMP_NUM_THREADS > r$RANK")));
  EXPECT_EQ(Read("r0"), "0 0 2 2 0 127.0.0.1 1234 1\n");
  EXPECT_EQ(Read("r1"), "1 1 2 2 0 127.0.0.1 1234 1\n");
}

TEST_F(LaunchTest, AdviceFollowsOnlySignal) {
  for (const char* const end : {"kill -9 $$", "exit 3"}) {
    LaunchOptions options = Shell(end, /*ranks=*/1);
    options.advice = [] { return std::string("; go on"); };
    EXPECT_EQ(Launch(options).message().find("; go on") != std::string::npos, *end == 'k') << end;
  }
}

TEST_F(LaunchTest, FailingRankEndsOthers) {  // S33
  const absl::Time start = absl::Now();
  EXPECT_THAT(
      Launch(Shell("trap 'echo told > told; exit 0' TERM; touch up$RANK; if [ $RANK = 1 ]; then "
                   "while [ ! -e up0 ]; do :; done; exit 3; fi; while :; do sleep 0.01; done")),
      StatusIs(absl::StatusCode::kAborted,
               AllOf(HasSubstr("rank 1"), HasSubstr("exited with code 3"))));
  EXPECT_EQ(Read("told"), "told\n");
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
}

// Both ranks fail because of rank 0, which ends last.
TEST_F(LaunchTest, NamesRankThatCausedFailure) {
  LaunchOptions options = Shell(
      "trap '' TERM; [ $RANK = 0 ] && while [ ! -e gone ]; do sleep 0.01; done; touch gone; "
      "[ $RANK = 0 ] && sleep 0.3; exit 3");
  EXPECT_THAT(Launch(options), StatusIs(absl::StatusCode::kAborted, HasSubstr("rank 1 (")));
  std::filesystem::remove(dir_.File("gone"));
  options.is_cause = [](int rank) { return rank == 0; };
  EXPECT_THAT(Launch(options), StatusIs(absl::StatusCode::kAborted, HasSubstr("rank 0 (")));
}

TEST_F(LaunchTest, NamesSignalThatKilledRank) {
  EXPECT_THAT(
      Launch(Shell("[ $RANK = 0 ] && kill -9 $$; exit 0")),
      StatusIs(absl::StatusCode::kAborted, AllOf(HasSubstr("rank 0"), HasSubstr("signal 9"))));
}

TEST_F(LaunchTest, KillsStubbornRankAfterGracePeriod) {
  LaunchOptions options = Shell(
      "trap '' TERM; touch up$RANK; if [ $RANK = 1 ]; then while [ ! -e up0 ]; do :; done; exit 1; "
      "fi; "
      "while :; do sleep 0.01; done");
  options.grace = absl::Milliseconds(100);
  EXPECT_THAT(Launch(options), StatusIs(absl::StatusCode::kAborted, HasSubstr("rank 1")));
}

TEST_F(LaunchTest, ForwardsSignalsToRanks) {
  absl::Status status;
  const pid_t self = getpid();
  std::thread killer([&] {
    EXPECT_TRUE(ranklog::testing::WaitFor([&] { return Read("up0") + Read("up1") == "up\nup\n"; }));
    kill(self, SIGTERM);
  });
  int signal = 0;
  status = trainer::Launch(
      Shell("trap 'echo told > told$RANK; trap - TERM; kill -TERM $$' TERM; echo up > up$RANK; "
            "while :; do sleep 0.01; done"),
      &signal);
  killer.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(signal, SIGTERM);
  EXPECT_EQ(Read("told0"), "told\n");
  EXPECT_EQ(Read("told1"), "told\n");
}

// Ranks of ranklog-train stop after SIGTERM and SIGUSR1 in their own time.
TEST_F(LaunchTest, RequestedStopIsNotFailure) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const std::string up = std::to_string(signal) + "up";
    LaunchOptions options = Shell("trap 'sleep 0.3; exit 75' TERM USR1; echo up > " + up +
                                  "$RANK; while :; do sleep 0.01; done");
    options.grace = absl::Milliseconds(1);  // has no effect here
    const pid_t self = getpid();
    std::thread killer([&] {
      EXPECT_TRUE(
          ranklog::testing::WaitFor([&] { return Read(up + "0") + Read(up + "1") == "up\nup\n"; }));
      kill(self, signal);
    });
    EXPECT_THAT(Launch(options), StatusIs(absl::StatusCode::kUnavailable));
    killer.join();
  }
}

// The signal arrived after their last step.
TEST_F(LaunchTest, SuccessDespiteSignalCounts) {
  const pid_t self = getpid();
  std::thread killer([&] {
    EXPECT_TRUE(ranklog::testing::WaitFor([&] { return Read("up0") + Read("up1") == "up\nup\n"; }));
    kill(self, SIGTERM);
  });
  EXPECT_OK(Launch(Shell("trap 'exit 0' TERM; echo up > up$RANK; while :; do sleep 0.01; done")));
  killer.join();
}

TEST_F(LaunchTest, RankFailureDuringStopIsReported) {
  const pid_t self = getpid();
  std::thread killer([&] {
    EXPECT_TRUE(ranklog::testing::WaitFor([&] { return Read("up0") + Read("up1") == "up\nup\n"; }));
    kill(self, SIGTERM);
  });
  EXPECT_THAT(Launch(Shell("trap 'exit $((74 + RANK))' TERM; echo up > up$RANK; "
                           "while :; do sleep 0.01; done")),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("rank 0")));
  killer.join();
}

// As in a background job of a shell.
TEST_F(LaunchTest, IgnoredInterruptStaysIgnored) {
  signal(SIGINT, SIG_IGN);
  EXPECT_OK(Launch(Shell("kill -INT $PPID $$; exit 0")));
  signal(SIGINT, SIG_DFL);
}

TEST_F(LaunchTest, MissingProgramIsFailure) {
  EXPECT_THAT(Launch({.command = {dir_.File("none")}, .ranks = 2, .master_port = 1}),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("code 127")));
}

}  // namespace
}  // namespace ranklog::trainer
