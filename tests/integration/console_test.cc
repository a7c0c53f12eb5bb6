// S53: what a rank prints: unchanged on the terminal, and in the store and at the tracker, whoever dies.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "service/storage/store_reader.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/status_matchers.h"

namespace ranklog::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// What console_rank prints to stdout before its last words.
const std::string kOut =
    "before Init()\nstdout is no terminal\n\repoch 1: 0 %\repoch 1: 10 %\repoch 1: 20 %\repoch 1: "
    "30 "
    "%\repoch 1: 40 %\repoch 1: 50 %\repoch 1: 60 %\repoch 1: 70 %\repoch 1: 80 %\repoch 1: 90 "
    "%\repoch 1: 100 %\n\xc3\xa4 \xff.\n";

class ConsoleTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }

  ChildProcess::Options Rank(bool stdout_only = true, int rank = 0, int ranks = 1) const {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment("job", rank, rank, ranks, ranks);
    options.environment.merge(WandbAt(server_.url()));
    options.environment["RANKLOG_QUIET"] = "1";
    options.stdout_only = stdout_only;
    return options;
  }
  // Both ways to log the console.
  static std::vector<std::string> Captured(const std::string& then) { return {CONSOLE_RANK, then}; }
  static std::vector<std::string> Executed(const std::string& then) {
    return {RANKLOG_CLI, "exec", "--", CONSOLE_RANK, then};
  }
  std::vector<std::string> Logs(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {RANKLOG_CLI, "logs", "job", "--state-dir", node_.state_dir()};
    args.insert(args.end(), more.begin(), more.end());
    return absl::StrSplit(RunToEnd(args).output, '\n', absl::SkipEmpty());
  }
  // The last line in the store, soon: the reader outlives a rank that is killed.
  static bool LastLineIs(const Node& node, const std::string& line) {
    return WaitFor([&] {
      return RunToEnd({RANKLOG_CLI, "logs", "job", "--state-dir", node.state_dir(), "-n", "1"})
                 .output == line + "\n";
    });
  }
  // The run has ended, and so has the process that reads its console.
  bool Ended() {
    return WaitFor([&] { return node_.RunHasEnded("job"); });
  }

  FakeWandb server_;
  Node node_;
};

TEST_F(ConsoleTest, OutputIsUnchangedAndLoggedUntilFinish) {
  const Finished finished = RunToEnd(Captured("finish"), Rank());
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.output, kOut + "after Finish()\n");
  ASSERT_TRUE(Ended());
  EXPECT_THAT(Logs(), ElementsAre("stdout is no terminal", "epoch 1: 100 %",
                                  "\xc3\xa4 \xef\xbf\xbd.", "a warning"));
  EXPECT_THAT(Logs({"--stderr"}), ElementsAre("a warning"));
  ASSERT_TRUE(server_.WaitForEnd("job"));
  const auto run = server_.run("job");
  ASSERT_EQ(run.console.size(), 4u);
  EXPECT_THAT(run.console[1], EndsWith(" epoch 1: 100 %"));
  EXPECT_TRUE(absl::StartsWith(run.console[3], "ERROR ")) << run.console[3];
  EXPECT_EQ(run.files.at("output.log"),
            "stdout is no terminal\nepoch 1: 100 %\n\xc3\xa4 \xef\xbf\xbd.\na warning\n");
  EXPECT_TRUE(server_.errors().empty()) << server_.errors().front();
  // Its lines are not among the items that it counts.
  const Finished verified =
      RunToEnd({RANKLOG_CLI, "verify", "job", "--state-dir", node_.state_dir()}, Rank());
  EXPECT_EQ(verified.code, 0) << verified.output;
}

TEST_F(ConsoleTest, ExecLogsFromTheStart) {
  const Finished finished = RunToEnd(Executed("finish"), Rank());
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.output, kOut + "after Finish()\n");
  ASSERT_TRUE(Ended());
  const auto logs = Logs();
  EXPECT_EQ(logs.front(), "before Init()");
  EXPECT_THAT(logs, Contains("a warning"));
}

// Otherwise each row of the rank would wait some seconds for one of the reader.
TEST_F(ConsoleTest, NoStepWaitsForReader) {
  for (const auto& command : {Captured("finish"), Executed("finish")}) {
    Node node;
    node.Start();
    ChildProcess::Options rank = Rank();
    for (const auto& [name, value] : node.RankEnvironment("job", 0, 0, 1, 1)) {
      rank.environment[name] = value;
    }
    EXPECT_EQ(RunToEnd(command, rank).code, 0);
    ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
    ASSERT_OK_AND_ASSIGN(const auto reader, storage::StoreReader::Open(node.state_dir()));
    ASSERT_OK_AND_ASSIGN(const auto streams, reader->Streams(1));
    ASSERT_EQ(streams.size(), 2u);
    for (const model::Stream& stream : streams) {
      EXPECT_EQ(stream.passed_step == model::Stream::kAllSteps, stream.durable_seq == 0);
    }
  }
}

// The reader ends its part at Finish(), and stdio's buffer would leave the program only at its exit.
TEST_F(ConsoleTest, ExecLogsWhatWasBufferedAtFinish) {
  const Finished finished = RunToEnd(Executed("linger"), Rank());
  EXPECT_EQ(finished.output, kOut + "last words\nafter Finish()\n");
  ASSERT_TRUE(Ended());
  EXPECT_THAT(Logs(), Contains("last words"));
}

// A busy machine lets `ranklog exec` join only when the run has ended and was delivered.
TEST_F(ConsoleTest, ExecMayJoinAfterTheEnd) {
  ChildProcess exec({RANKLOG_CLI, "exec", "--", "sh", "-c",
                     absl::StrCat("kill -STOP $PPID; exec ", CONSOLE_RANK, " finish")},
                    Rank());
  const auto delivered = [&](const std::string& line) {
    return server_.WaitFor(
        [&](const auto& runs) {
          const auto run = runs.find("job");
          return run != runs.end() && run->second.complete &&
                 (line.empty() || (run->second.files.count("output.log") > 0 &&
                                   absl::StrContains(run->second.files.at("output.log"), line)));
        },
        absl::Seconds(60));
  };
  ASSERT_TRUE(Ended());
  ASSERT_TRUE(delivered(""));
  EXPECT_THAT(Logs(), ElementsAre(HasSubstr("has no console")));
  exec.Signal(SIGCONT);
  EXPECT_EQ(exec.Wait(), 0);
  ASSERT_TRUE(Ended());
  EXPECT_THAT(Logs(), Contains("a warning"));
  EXPECT_TRUE(delivered("a warning"));
}

TEST_F(ConsoleTest, LastWordsBeforeAKillAreThere) {
  for (const auto& args : {Captured("die"), Executed("die")}) {
    SCOPED_TRACE(args[0]);
    Node node;
    node.Start();
    ChildProcess::Options options = Rank(/*stdout_only=*/false);
    options.environment = node.RankEnvironment("job", 0, 0, 1, 1);
    options.environment["RANKLOG_QUIET"] = "1";
    const Finished finished = RunToEnd(args, options);
    EXPECT_EQ(finished.code, -SIGKILL);
    EXPECT_TRUE(LastLineIs(node, "last words"));
    EXPECT_TRUE(WaitFor([&] { return node.GetRun("job").state == model::RunState::kCrashed; }));
  }
}

TEST_F(ConsoleTest, AnExitWithoutFinishWaitsForTheOutput) {
  for (const auto& args : {Captured("exit"), Executed("exit")}) {
    const Finished finished = RunToEnd(args, Rank());
    EXPECT_EQ(finished.code, 3);
    EXPECT_EQ(finished.output, kOut + "last words\n");
  }
}

TEST_F(ConsoleTest, AKilledReaderLosesNoOutput) {
  const Finished finished = RunToEnd(Captured("kill-reader"), Rank());
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.output.size(), kOut.size() + 5000 * 100 + 26);
  // What is printed while the thread takes over may change places.
  EXPECT_EQ(std::count(finished.output.begin(), finished.output.end(), 'x'), 5000 * 99);
  ASSERT_TRUE(Ended());
  EXPECT_THAT(Logs(), Contains("stdout is no terminal"));
}

// A batch system sends signals to all processes of a job.
TEST_F(ConsoleTest, SignalsForTheRankDoNotEndTheReader) {
  EXPECT_EQ(RunToEnd(Captured("signal-reader"), Rank()).code, 0);
  ASSERT_TRUE(Ended());
  EXPECT_THAT(Logs(), Contains("last words"));
}

TEST_F(ConsoleTest, TooManyLinesAreLeftOutButNotTheLast) {
  const Finished finished = RunToEnd(Captured("endless"), Rank());
  EXPECT_EQ(finished.code, 0);
  // Finish() waits for the reader at most 10 s, so its own line may come first.
  EXPECT_THAT(finished.output, HasSubstr("line 99999\nlast words\n"));
  EXPECT_THAT(finished.output, HasSubstr("after Finish()\n"));
  ASSERT_TRUE(Ended());
  const auto logs = Logs();
  EXPECT_THAT(logs, Contains("last words"));
  EXPECT_LT(logs.size(), 20'000u);
  EXPECT_THAT(logs, Contains(HasSubstr("lines were left out here")));
}

TEST_F(ConsoleTest, EachRankHasItsOwn) {
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::make_unique<ChildProcess>(Captured("finish"), Rank(true, rank, 2)));
  }
  for (const auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0);
  ASSERT_TRUE(Ended());
  EXPECT_THAT(Logs({"--rank", "1"}), Contains("a warning"));
  EXPECT_THAT(Logs({"--rank", "5"}), Contains(HasSubstr("ranks with one: 0, 1")));
  ASSERT_TRUE(server_.WaitForEnd("job"));
  EXPECT_EQ(server_.run("job").console.size(), 4u) << "only that of rank 0";
}

// Rank 1 is first to announce its run, and last to end.
TEST_F(ConsoleTest, ExecLogsToTheLowestRank) {
  const std::string ranks =
      absl::StrCat("(export RANK=1 LOCAL_RANK=1; ", CONSOLE_RANK, " wait) & sleep 0.5; ",
                   CONSOLE_RANK, " finish; echo between; wait");
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "exec", "--", "bash", "-c", ranks}, Rank(true, 0, 2)).code, 0);
  ASSERT_TRUE(Ended());
  EXPECT_THAT(Logs({"--rank", "0"}), Contains("a warning"));
  EXPECT_THAT(Logs({"--rank", "1"}), Contains(HasSubstr("ranks with one: 0")));
}

TEST_F(ConsoleTest, ARestartedDaemonLosesNoLine) {
  const auto rank = std::make_unique<ChildProcess>(Executed("finish"), Rank());
  node_.Kill();
  node_.Start();
  EXPECT_TRUE(rank->Wait().has_value());
  ASSERT_TRUE(Ended());
  node_.Kill();
  node_.Start();
  EXPECT_THAT(Logs(), Contains("a warning"));
  EXPECT_EQ(node_.LogCount("damaged"), 0u) << node_.Log();
}

// A forked worker that outlives its rank holds the pipe.
TEST_F(ConsoleTest, ADeadRankIsSeenThoughItsChildLives) {
  const Finished finished = RunToEnd(Captured("leave-child"), Rank());
  EXPECT_EQ(finished.code, -SIGKILL);
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").state == model::RunState::kCrashed; },
                      absl::Seconds(15)));
  EXPECT_TRUE(LastLineIs(node_, "last words"));
}

TEST_F(ConsoleTest, AnOutputThatNobodyReadsEndsTheRank) {
  const Finished finished = RunToEnd(
      {"bash", "-c", absl::StrCat("trap - PIPE; ", CONSOLE_RANK, " much | head -n 1")}, Rank());
  EXPECT_EQ(finished.output, "before Init()\n");
}

// A slow daemon may take the last ones from the spool.
TEST_F(ConsoleTest, LastWordsAfterAMegabyteAreThere) {
  for (const auto& args : {Captured("much-die"), Executed("much-die")}) {
    SCOPED_TRACE(args[0]);
    Node node;
    node.Start();
    ChildProcess::Options options = Rank();
    options.environment = node.RankEnvironment("job", 0, 0, 1, 1);
    options.environment["RANKLOG_QUIET"] = "1";
    EXPECT_EQ(RunToEnd(args, options).code, -SIGKILL);
    EXPECT_TRUE(WaitFor([&] {
      const Finished logs =
          RunToEnd({RANKLOG_CLI, "logs", "job", "--state-dir", node.state_dir(), "-n", "10"});
      return absl::StrContains(logs.output, "last words\n");
    }));
  }
}

TEST_F(ConsoleTest, AReaderThatDoesNotStartIsRefused) {
  ChildProcess::Options options = Rank(/*stdout_only=*/false);
  const TempDir dir;
  ASSERT_EQ(RunToEnd({"ln", "-s", "/bin/false", dir.File("ranklog")}).code, 0);
  options.environment["RANKLOG_DAEMON"] = dir.File("ranklogd");  // looked for beside it
  const Finished finished = RunToEnd(Captured("finish"), options);
  EXPECT_EQ(finished.code, 4);
  EXPECT_THAT(finished.output, HasSubstr("console-reader does not start"));
}

TEST_F(ConsoleTest, NoDataCommandsATerminal) {
  RunToEnd(Executed("escapes"), Rank());
  ASSERT_TRUE(Ended());
  EXPECT_THAT(Logs(), Contains("red text"));
  const Finished finished = RunToEnd(
      {"script", "-qec", absl::StrCat(RANKLOG_CLI, " logs job --state-dir ", node_.state_dir()),
       "/dev/null"});
  EXPECT_THAT(finished.output, HasSubstr("\x1b[31mred\x1b[0m text"));
  EXPECT_THAT(finished.output, Not(HasSubstr("]52")));
  EXPECT_THAT(finished.output, Not(HasSubstr("1049h")));
}

// script(1) gives it a terminal.
TEST_F(ConsoleTest, ATerminalStaysOne) {
  for (const std::string& command :
       {absl::StrCat(CONSOLE_RANK, " finish"),
        absl::StrCat(RANKLOG_CLI, " exec -- ", CONSOLE_RANK, " finish")}) {
    const Finished finished = RunToEnd({"script", "-qec", command, "/dev/null"}, Rank());
    EXPECT_EQ(finished.code, 0);
    EXPECT_THAT(finished.output, HasSubstr("stdout is a terminal\r\n\repoch 1: 0 %"));
  }
}

TEST(ExecTest, EndsLikeTheCommand) {
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "exec", "--", "sh", "-c", "exit 7"}).code, 7);
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "exec", "sh", "-c", "kill -TERM $$"}).code, -SIGTERM);
  const Finished absent = RunToEnd({RANKLOG_CLI, "exec", "--", "no-such-program"});
  EXPECT_EQ(absent.code, 127);
  EXPECT_THAT(absent.output, HasSubstr("cannot start 'no-such-program'"));
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "exec"}).code, 2);
  EXPECT_THAT(RunToEnd({RANKLOG_CLI, "exec", "--help"}).output, HasSubstr("torchrun"));
}

TEST(ExecTest, PassesEveryByteOn) {
  const Finished plain = RunToEnd({"seq", "1", "300000"});
  const Finished finished = RunToEnd({RANKLOG_CLI, "exec", "--", "seq", "1", "300000"});
  EXPECT_TRUE(finished.output == plain.output);
}

TEST(ExecTest, AClosedPipeEndsTheCommand) {
  const Finished finished = RunToEnd(
      {"bash", "-c", absl::StrCat("set -o pipefail; ", RANKLOG_CLI, " exec -- yes | head -n 1")});
  EXPECT_NE(finished.code, 0);
  EXPECT_NE(finished.code, -SIGKILL) << "it printed on";
  EXPECT_TRUE(absl::StartsWith(finished.output, "y\n")) << finished.output;
}

TEST(ExecTest, DoesNotWaitForWhatTheCommandLeftBehind) {
  const absl::Time begin = absl::Now();
  const Finished finished = RunToEnd(
      {RANKLOG_CLI, "exec", "--", "bash", "-c", "(sleep 20; echo late) & echo crash; exit 7"});
  EXPECT_EQ(finished.code, 7);
  EXPECT_THAT(finished.output, HasSubstr("crash\n"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
}

TEST(ExecTest, SignalsForTheJobDoNotEndIt) {
  ChildProcess exec({RANKLOG_CLI, "exec", "--", "sh", "-c", "echo ready; sleep 1; exit 5"});
  ASSERT_TRUE(WaitFor([&] { return absl::StrContains(exec.Output(), "ready"); }));
  exec.Signal(SIGUSR1);
  exec.Signal(SIGUSR2);
  EXPECT_EQ(exec.Wait(), 5);
}

TEST(ExecTest, ATerminationReachesTheCommand) {
  ChildProcess exec({RANKLOG_CLI, "exec", "--", "sh", "-c",
                     "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done"});
  ASSERT_TRUE(WaitFor([&] { return absl::StrContains(exec.Output(), "ready"); }));
  exec.Signal(SIGTERM);
  EXPECT_EQ(exec.Wait(), 9);
  EXPECT_THAT(exec.Output(), HasSubstr("caught"));
}

}  // namespace
}  // namespace ranklog::testing
