// What a training shows on the terminal: the run, problems and their ends, and its own end.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Environment = std::map<std::string, std::string>;

// Returns Ranklog's lines in a rank's output.
std::vector<std::string> Lines(const ChildProcess& rank) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(rank.Output(), '\n')) {
    if (absl::StartsWith(line, "ranklog: ")) lines.emplace_back(line);
  }
  return lines;
}

class TerminalLinesTest : public ::testing::Test {
 protected:
  // Starts a rank of a job of two ranks on this node.
  ChildProcess Start(int rank, std::vector<std::string> args, Environment extra = {}) {
    extra.emplace("RANKLOG_QUIET", "0");
    return node_.StartRank("job", rank, rank, 2, 2, std::move(args), extra);
  }
  // Starts a rank that logs a row per millisecond until Stop().
  ChildProcess StartLong(int rank, const Environment& extra = {}) {
    return Start(rank, {"1000000", "0", "1000", StopFile()}, extra);
  }
  std::string StopFile() const { return node_.socket() + ".stop"; }
  void Stop() const { close(open(StopFile().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)); }
  static bool Says(const ChildProcess& rank, const std::string& text) {
    return WaitFor([&] { return absl::StrContains(rank.Output(), text); });
  }

  Node node_{{"--transmit-interval", "1s"}};
};

TEST_F(TerminalLinesTest, RankZeroReportsRunAndEnd) {
  node_.Start();
  ChildProcess second = StartLong(1);
  ChildProcess first = Start(0, {"100"});
  EXPECT_EQ(first.Wait(), 0) << first.Output();
  Stop();
  EXPECT_EQ(second.Wait(), 0) << second.Output();
  EXPECT_THAT(Lines(first),
              ElementsAre(StartsWith("ranklog: run job (main, 2 ranks) is kept on this node; look "
                                     "at it: ranklog show job"),  // and more if /tmp is a tmpfs
                          "ranklog: run job: all 100 rows of this rank are durable"));
  // Before the output of the program that follows Finish().
  EXPECT_LT(first.Output().find("are durable"), first.Output().find("logged 100"));
  EXPECT_THAT(Lines(second), IsEmpty());
  ChildProcess quiet = Start(0, {"1"}, {{"RANKLOG_QUIET", "1"}, {"RANKLOG_RUN_ID", "quiet"}});
  EXPECT_EQ(quiet.Wait(), 0);
  EXPECT_THAT(Lines(quiet), IsEmpty());
}

TEST_F(TerminalLinesTest, TrackerErrorsAreReportedAndCleared) {  // S42
  FakeWandb wandb;
  const std::string key(40, 'k');
  wandb.RequireKey(key);
  node_.StartWith({{"HOME", node_.state_dir()},
                   {"XDG_CONFIG_HOME", node_.state_dir()},
                   {"NETRC", "/nonexistent"}});
  const Environment no_key = {{"WANDB_BASE_URL", wandb.url()}, {"RANKLOG_DESTINATIONS", "wandb"}};
  ChildProcess first = StartLong(0, no_key);
  ASSERT_TRUE(Says(first, "no API key for 127.0.0.1")) << first.Output();
  ASSERT_TRUE(Says(first, "goes to wandb")) << first.Output();
  ChildProcess second = StartLong(1, {{"WANDB_BASE_URL", wandb.url()}, {"WANDB_API_KEY", key}});
  ASSERT_TRUE(Says(first, "wandb accepts rows again")) << first.Output() << node_.Log();
  ASSERT_TRUE(Says(first, "run job is at " + wandb.url() + "/")) << first.Output();
  Stop();
  EXPECT_EQ(first.Wait(), 0) << first.Output();
  EXPECT_EQ(second.Wait(), 0) << second.Output();
  // While the run is open, the total is unknown.
  EXPECT_THAT(
      Lines(first).back(),
      AllOf(ContainsRegex("are durable, [0-9]+ rows delivered; the daemon sends the rest to wandb"),
            Not(HasSubstr("wait"))));
  EXPECT_THAT(Lines(second), IsEmpty());

  unlink(StopFile().c_str());
  ChildProcess refused = StartLong(0, {{"WANDB_BASE_URL", wandb.url()},
                                       {"WANDB_API_KEY", std::string(40, 'x')},
                                       {"RANKLOG_RUN_ID", "refused"}});
  EXPECT_TRUE(Says(refused, "rows wait for wandb")) << refused.Output();
  Stop();
  EXPECT_EQ(refused.Wait(), 0) << refused.Output();
  EXPECT_THAT(Lines(refused).back(),
              AllOf(HasSubstr("are durable"), HasSubstr("; rows wait for wandb: ")));
  EXPECT_THAT(Lines(refused).back(), HasSubstr("401"));
}

// The daemon loads the delivery before the rank, which has the key, attaches again.
TEST_F(TerminalLinesTest, ResentKeyIsNoTrouble) {  // S42
  FakeWandb wandb;
  const std::string key(40, 'k');
  wandb.RequireKey(key);
  const Environment no_key = {{"HOME", node_.state_dir()},
                              {"XDG_CONFIG_HOME", node_.state_dir()},
                              {"NETRC", "/nonexistent"}};
  node_.StartWith(no_key);
  ChildProcess rank = StartLong(0, {{"WANDB_BASE_URL", wandb.url()}, {"WANDB_API_KEY", key}});
  const auto delivered = [&] { return wandb.run("job").history.size(); };
  ASSERT_TRUE(WaitFor([&] { return delivered() > 0; })) << rank.Output() << node_.Log();
  rank.Signal(SIGSTOP);
  node_.Kill();
  node_.StartWith(no_key);
  ASSERT_TRUE(WaitFor([&] { return node_.Counter("deliver.steps") > 2; })) << node_.Log();
  EXPECT_EQ(node_.Counter("deliver.failing"), 0u) << node_.Log();
  const auto output = [&](const char* command) {
    return RunToEnd({RANKLOG_CLI, command, "--state-dir", node_.state_dir()}).output;
  };
  EXPECT_THAT(output("runs"), Not(HasSubstr("no API key")));
  EXPECT_THAT(output("status"), Not(HasSubstr("no API key")));
  const size_t before = delivered();
  rank.Signal(SIGCONT);
  EXPECT_TRUE(WaitFor([&] { return delivered() > before; })) << rank.Output() << node_.Log();
  Stop();
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_THAT(rank.Output(), Not(HasSubstr("no API key")));
  EXPECT_THAT(Lines(rank).back(), Not(HasSubstr("wait")));
}

TEST_F(TerminalLinesTest, MissingDaemonReasonIsPrinted) {
  ChildProcess first = StartLong(0, {{"RANKLOG_START_DAEMON", "1"},
                                     {"RANKLOG_DAEMON", "/nonexistent/ranklogd"},
                                     {"RANKLOG_FINISH_TIMEOUT_MS", "100"}});
  ASSERT_TRUE(Says(first, "no daemon accepts rows; they stay in the spool: ")) << first.Output();
  EXPECT_THAT(Lines(first).back(), HasSubstr("/nonexistent/ranklogd"));
  Stop();
  EXPECT_EQ(first.Wait(), 3);
  EXPECT_THAT(Lines(first).back(), AllOf(StartsWith("ranklog: run job: 0 of "),
                                         HasSubstr("the rest waits in the spool for the daemon"),
                                         HasSubstr("/nonexistent/ranklogd")));
}

// The connection stays open.
TEST_F(TerminalLinesTest, HangingDaemonIsReported) {
  node_.Start();
  ChildProcess first = StartLong(0);
  ASSERT_TRUE(Says(first, "is kept on this node")) << first.Output();
  node_.daemon().Signal(SIGSTOP);
  ASSERT_TRUE(Says(first, "the daemon has accepted no rows for 3 s")) << first.Output();
  node_.daemon().Signal(SIGCONT);
  ASSERT_TRUE(Says(first, "the daemon accepts rows again")) << first.Output();
  Stop();
  EXPECT_EQ(first.Wait(), 0) << first.Output();

  unlink(StopFile().c_str());
  ChildProcess second =
      StartLong(0, {{"RANKLOG_RUN_ID", "second"}, {"RANKLOG_FINISH_TIMEOUT_MS", "100"}});
  ASSERT_TRUE(Says(second, "is kept on this node")) << second.Output();
  node_.daemon().Signal(SIGSTOP);
  ASSERT_TRUE(Says(second, "the daemon has accepted no rows for 3 s")) << second.Output();
  Stop();
  EXPECT_EQ(second.Wait(), 3) << second.Output();
  EXPECT_THAT(Lines(second).back(),
              ContainsRegex("the rest waits in the spool for the daemon: the daemon has accepted "
                            "no rows for [0-9]+ s"));
  node_.daemon().Signal(SIGCONT);
}

// The message has the daemon's own reason, not just that no daemon answers. The commands show it
// too.
TEST_F(TerminalLinesTest, FailedDaemonStartPrintsReason) {  // S42
  const std::string file = node_.socket() + ".file";
  close(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ChildProcess first = StartLong(0, {{"RANKLOG_START_DAEMON", "1"},
                                     {"RANKLOG_DAEMON", RANKLOGD},
                                     {"RANKLOG_STATE_DIR", file + "/state"},
                                     {"RANKLOG_FINISH_TIMEOUT_MS", "100"}});
  ASSERT_TRUE(Says(first,
                   "no daemon accepts rows; they stay in the spool: ranklogd cannot "
                   "start: "))
      << first.Output();
  Stop();
  EXPECT_EQ(first.Wait(), 3);
  EXPECT_THAT(Lines(first).back(), HasSubstr("ranklogd cannot start: "));
  EXPECT_THAT(Lines(first).back(), HasSubstr(file + "/state"));
  EXPECT_THAT(Lines(first).back(), HasSubstr("ranklogd.log)"));
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_ADDRESS", node_.address()}};
  for (const char* command : {"status", "doctor"}) {
    const Finished finished =
        RunToEnd({RANKLOG_CLI, command, "--state-dir", node_.state_dir()}, options);
    EXPECT_THAT(finished.output, HasSubstr("ranklogd.log")) << command;
    EXPECT_THAT(finished.output, HasSubstr(file + "/state")) << command;
  }
}

// A mistake loses no row.
TEST_F(TerminalLinesTest, WrongSettingsAreReported) {  // S42
  node_.Start();
  ChildProcess first = Start(
      0, {"10"}, {{"WANDB_MODE", "ofline"}, {"RANKLOG_RUN_ID", "exp/1"}, {"WANDB_API_KEY", "k"}});
  EXPECT_EQ(first.Wait(), 0) << first.Output();
  const std::vector<std::string> lines = Lines(first);
  ASSERT_EQ(lines.size(), 4u) << first.Output();
  EXPECT_THAT(lines[0], HasSubstr("WANDB_MODE=ofline is unknown; use online, offline or disabled; "
                                  "the rows stay on this node"));
  EXPECT_THAT(lines[1],
              ContainsRegex("run_id is \"exp/1\", .*; Init\\(\\) uses exp-1-[a-z0-9]{8}"));
  EXPECT_THAT(lines[2], ContainsRegex("run exp-1-[a-z0-9]{8} .*is kept on this node"));
  EXPECT_THAT(lines[3], HasSubstr("all 10 rows of this rank are durable"));
}

// Only the daemon knows the destinations.
TEST_F(TerminalLinesTest, WrongDestinationsAreReported) {
  node_.Start();
  ChildProcess rank = Start(0, {"10"}, {{"RANKLOG_DESTINATIONS", "pigeon"}});
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_THAT(
      Lines(rank),
      ElementsAre(HasSubstr("is kept on this node"),
                  "ranklog: unknown destination \"pigeon\"; use wandb, mlflow, clickhouse, offline "
                  "or local; it is "
                  "ignored; so the rows stay on this node until `ranklog sync job --to wandb`",
                  "ranklog: run job: all 10 rows of this rank are durable"));
}

// Rank 0 does not have that mistake.
TEST_F(TerminalLinesTest, RankOutOfRangeIsReported) {
  node_.Start();
  ChildProcess third = node_.StartRank("job", 3, 1, 2, 2, {"10"}, {{"RANKLOG_QUIET", "0"}});
  EXPECT_EQ(third.Wait(), 0) << third.Output();
  EXPECT_THAT(Lines(third),
              ElementsAre("ranklog: rank 3 is not below world_size 2; Init() uses rank 3 of 4"));
}

TEST_F(TerminalLinesTest, FullDiskIsReportedAndCleared) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk disk(node_.state_dir(), "8m");
  ASSERT_TRUE(disk.mounted());
  node_.Start();
  const std::string filler = node_.state_dir() + "/filler";
  const int fd = open(filler.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (write(fd, block.data(), block.size()) > 0) {
  }
  close(fd);
  // Already the attach finds the disk full.
  ChildProcess first = StartLong(0);
  ASSERT_TRUE(Says(first, "the daemon cannot store rows")) << first.Output() << node_.Log();
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_ADDRESS", node_.address()}};
  for (const char* command : {"status", "doctor"}) {
    const Finished finished =
        RunToEnd({RANKLOG_CLI, command, "--state-dir", node_.state_dir()}, options);
    EXPECT_EQ(finished.code, command == std::string("doctor") ? 1 : 0);
    EXPECT_THAT(finished.output, HasSubstr("the daemon cannot store rows (0 B free in " +
                                           node_.state_dir() + "); they stay in the spools"));
  }
  std::filesystem::remove(filler);
  ASSERT_TRUE(Says(first, "the daemon stores rows again")) << first.Output();
  ASSERT_TRUE(Says(first,
                   "run job (main, 2 ranks) is kept on this node; look at it: ranklog show "
                   "job; the log in " +
                       node_.state_dir() + " is on tmpfs and ends with this container"))
      << first.Output();
  Stop();
  EXPECT_EQ(first.Wait(), 0) << first.Output();
}

}  // namespace
}  // namespace ranklog::testing
