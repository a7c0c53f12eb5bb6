// ranklogd as a program: how it starts, refuses, stops and restarts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/storage/directories/state_lock.h"
#include "tests/integration/counting_job.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DaemonTest, RanksStartedEarlierConnect) {
  Node node;
  CountingJob counting(node, "job", /*rows=*/0, {{"RANKLOG_SPOOL_BYTES", "65536"}});
  ASSERT_TRUE(counting.WaitForReturned(500));
  node.Start();
  ASSERT_TRUE(counting.WaitForReturned(20'000));  // far more than the ring holds
  EXPECT_EQ(counting.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  counting.ExpectEveryReturnedRowOnce();
}

// gRPC aborted the daemon if there were just enough descriptors to open the store.
TEST(DaemonTest, TooFewDescriptorsFailWithReason) {
  Node node;
  const auto limited = [&](int limit) {
    return std::vector<std::string>{"prlimit",        absl::StrCat("--nofile=", limit, ":", limit),
                                    RANKLOGD,         "--listen",
                                    node.address(),   "--state-dir",
                                    node.state_dir(), "--spool-dir",
                                    node.spool_dir()};
  };
  for (int limit = 12; limit <= 64; limit += 4) {
    const Finished daemon = RunToEnd(limited(limit));
    EXPECT_EQ(daemon.code, 1) << limit;
    EXPECT_THAT(daemon.output, ContainsRegex(absl::StrCat(
                                   "cannot start: too few file descriptors: only [0-9]+ of ", limit,
                                   " are free")));
  }
  const ChildProcess daemon(limited(72));
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"100"});
  EXPECT_EQ(rank.Wait(), 0) << rank.Output() << daemon.Output();
}

// Else its messages would go to a file or a socket of its own.
TEST(DaemonTest, WritesNowhereIfStderrIsClosed) {
  Node node({}, {}, {"sh", "-c", "exec \"$@\" 0<&- 1>&- 2>&-", "sh"});
  node.Start();
  for (int fd = 0; fd < 3; ++fd) {
    const std::string path = absl::StrCat("/proc/", node.daemon().pid(), "/fd/", fd);
    EXPECT_THAT(std::filesystem::read_symlink(path).string(),
                AnyOf("/dev/null", "anon_inode:[eventfd]"));
  }
}

TEST(DaemonTest, ConcurrentJobsKeepRowsApart) {
  Node node;
  node.Start();
  CountingJob one(node, "one", /*rows=*/5000);
  CountingJob two(node, "two", /*rows=*/3000);
  ASSERT_TRUE(one.WaitForReturned(5000));
  ASSERT_TRUE(two.WaitForReturned(3000));
  EXPECT_EQ(one.Finish(), 0);
  EXPECT_EQ(two.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("one") && node.RunHasEnded("two"); }));
  EXPECT_EQ(node.GetRun("one").rows, 5000u);
  EXPECT_EQ(node.GetRun("two").rows, 3000u);
}

TEST(DaemonTest, NextDaemonContinuesAfterSigterm) {
  Node node;
  node.Start();
  CountingJob counting(node, "job", /*rows=*/0, {{"RANKLOG_SPOOL_BYTES", "65536"}});
  ASSERT_TRUE(counting.WaitForReturned(5000));
  EXPECT_EQ(node.Terminate(), 0);
  EXPECT_FALSE(node.RunHasEnded("job"));
  EXPECT_NE(access(node.socket().c_str(), F_OK), 0) << "the socket's file is still there";
  const uint64_t before = counting.returned();
  node.Start();
  ASSERT_TRUE(counting.WaitForReturned(before + 20'000));
  EXPECT_EQ(counting.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  counting.ExpectEveryReturnedRowOnce();
}

TEST(DaemonTest, SecondDaemonOnStateDirectoryFails) {
  Node node;
  node.Start();
  TempDir other;
  const Finished second =
      RunRanklogd({"--state-dir", node.state_dir(), "--listen", "unix:" + other.File("s")});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output, HasSubstr(std::to_string(node.daemon().pid())));
}

TEST(DaemonTest, SecondDaemonOnSocketFails) {
  Node node;
  node.Start();
  TempDir other;
  const Finished second =
      RunRanklogd({"--state-dir", other.File("state"), "--listen", node.address()});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(
      second.output,
      HasSubstr("another daemon answers at " + node.socket() + ": pid " +
                std::to_string(node.daemon().pid()) + ", state directory " + node.state_dir() +
                "; to stop it, run: ranklog stop --state-dir " + node.state_dir()));
  // Commands for the other directory name the daemon that has the rows, and do not offer a store.
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_STATE_DIR", other.File("asked")},
                         {"RANKLOG_ADDRESS", node.address()}};
  for (const char* command : {"runs", "status"}) {
    const Finished finished = RunToEnd({RANKLOG_CLI, command}, options);
    EXPECT_EQ(finished.code, 1) << command;
    EXPECT_THAT(finished.output, AllOf(HasSubstr("keeps " + node.state_dir()),
                                       HasSubstr("; use --state-dir " + node.state_dir()),
                                       Not(HasSubstr("create one here"))))
        << command;
  }
  EXPECT_THAT(
      RunToEnd({RANKLOG_CLI, "stop"}, options).output,
      HasSubstr("to stop that one, run: ranklog --state-dir " + node.state_dir() + " stop"));
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"},
                                     {{"RANKLOG_STATE_DIR", other.File("asked")},
                                      {"RANKLOG_DESTINATIONS", "local"},
                                      {"RANKLOG_QUIET", "0"}});
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_THAT(rank.Output(), HasSubstr("the running daemon keeps " + node.state_dir() + ", not " +
                                       other.File("asked")));
}

// Starts a daemon with a listening socket at the node's address, like systemd.
ChildProcess StartWithSocket(const Node& node) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);  // inherited by the daemon
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  node.socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(fd, 16), 0);
  // The daemon takes descriptor 3 if LISTEN_PID is its own pid, which exec keeps.
  ChildProcess daemon({"bash", "-c",
                       "exec 3<&" + std::to_string(fd) +
                           "; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$2\" --state-dir \"$0\" "
                           "--listen unix:/nowhere/s --spool-dir \"$1\"",
                       node.state_dir(), node.spool_dir(), RANKLOGD});
  close(fd);
  return daemon;
}

TEST(DaemonTest, SecondSignalEndsDrainWithoutLoss) {
  Node node({"--drain", "1h"});
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"100"}, WandbAt("http://127.0.0.1:1"));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  node.daemon().Signal(SIGTERM);
  ASSERT_TRUE(WaitFor([&] { return node.LogCount("for at most 1h") == 1; }));
  node.daemon().Signal(SIGTERM);
  EXPECT_EQ(node.daemon().Wait(), -SIGTERM);
  EXPECT_EQ(node.GetRun("job").rows, 100u);
  node.Start();
}

// `./train && ranklog show latest`: the daemon makes the last rows after the rank has ended.
TEST(DaemonTest, EndedRunIsShownCompletely) {  // S45
  Node node;
  node.Start();
  for (int i = 0; i < 5; ++i) {
    ChildProcess rank = node.StartRank("job" + std::to_string(i), 0, 0, 1, 1, {"3000"});
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
    const Finished shown = RunToEnd({RANKLOG_CLI, "show", "latest", "--address", node.address()});
    EXPECT_THAT(shown.output, AllOf(HasSubstr("finished"), HasSubstr("rows 3000")));
  }
}

TEST(DaemonTest, IsStoppedByTheCommandLine) {
  Node node;
  node.Start();
  const auto stop = [&] { return RunToEnd({RANKLOG_CLI, "stop", "--address", node.address()}); };
  const Finished stopped = stop();
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  EXPECT_EQ(node.daemon().Wait(), 0);
  EXPECT_EQ(stop().code, 1) << "nobody answers at the address";
  const Finished again = RunToEnd({RANKLOG_CLI, "stop", "--state-dir", node.state_dir()});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.output, HasSubstr("no daemon is running"));
}

TEST(DaemonTest, BackgroundReturnsOnceServing) {
  const Node node;
  const std::vector<std::string> flags = {"--background",  "--state-dir",  node.state_dir(),
                                          "--listen",      node.address(), "--spool-dir",
                                          node.spool_dir()};
  std::filesystem::create_directories(node.state_dir());
  std::ofstream(node.state_dir() + "/ranklog.db") << "not a database";
  const Finished started = RunRanklogd(flags);
  EXPECT_EQ(started.code, 0) << started.output;
  EXPECT_THAT(started.output, HasSubstr(node.socket()));
  EXPECT_THAT(started.output, HasSubstr("run `ranklog recover " + node.state_dir()));
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"}, {{"RANKLOG_START_DAEMON", "0"}});
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  const Finished again = RunRanklogd(flags);
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.output,
              AllOf(HasSubstr("a daemon already answers at " + node.socket() + ": pid "),
                    HasSubstr("state directory " + node.state_dir() + "; its options stay")));
  const TempDir other;
  const Finished elsewhere = RunRanklogd(
      {"--background", "--state-dir", node.state_dir(), "--listen", "unix:" + other.File("s")});
  EXPECT_EQ(elsewhere.code, 1);
  EXPECT_THAT(elsewhere.output, HasSubstr("ranklogd: cannot start: " + node.state_dir()));
  const Finished not_asked =
      RunRanklogd({"--background", "--state-dir", other.File("state"), "--listen", node.address()});
  EXPECT_EQ(not_asked.code, 1);
  EXPECT_THAT(not_asked.output, HasSubstr("its state directory and options stay"));
  const auto ranklog = [&](const std::string& command) {
    return RunToEnd({RANKLOG_CLI, command, "--address", node.address()});
  };
  EXPECT_THAT(ranklog("daemon-log").output, HasSubstr("listens at " + node.socket()));

  const int64_t pid = storage::StateLock::Holder(node.state_dir());
  ASSERT_EQ(kill(static_cast<pid_t>(pid), SIGSTOP), 0);
  const Finished silent = RunRanklogd(flags);
  EXPECT_EQ(kill(static_cast<pid_t>(pid), SIGCONT), 0);
  EXPECT_EQ(silent.code, 1);
  EXPECT_THAT(silent.output,
              HasSubstr("another daemon listens at " + node.socket() + ", but does not answer"));
  EXPECT_EQ(ranklog("stop").code, 0);
}

// Like the prologs of several jobs of one user.
TEST(DaemonTest, ConcurrentBackgroundStartsAllSucceed) {
  for (int round = 0; round < 3; ++round) {
    const Node node;
    std::vector<ChildProcess> starters;
    for (int i = 0; i < 6; ++i) {
      starters.emplace_back(std::vector<std::string>{RANKLOGD, "--background", "--state-dir",
                                                     node.state_dir(), "--listen", node.address(),
                                                     "--spool-dir", node.spool_dir()});
    }
    for (ChildProcess& starter : starters) {
      EXPECT_EQ(starter.Wait(), 0) << starter.Output();
      EXPECT_THAT(starter.Output(), HasSubstr(node.socket()));
    }
    EXPECT_EQ(RunToEnd({RANKLOG_CLI, "stop", "--address", node.address()}).code, 0);
  }
}

// A rank must attach before its daemon is idle for so long, also on a slow machine.
TEST(DaemonTest, IdleExitWaitsForDelivery) {
  Node node({"--idle-exit", "4s"});
  node.Start();
  ChildProcess waiting =
      node.StartRank("waiting", 0, 0, 1, 1, {"10"}, WandbAt("http://127.0.0.1:1"));
  ASSERT_EQ(waiting.Wait(), 0) << waiting.Output();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("waiting"); }));
  absl::SleepFor(absl::Seconds(6));
  EXPECT_EQ(node.LogCount("--idle-exit"), 0) << "a run waits for its tracker";
  node.Terminate();

  Node empty({"--idle-exit", "4s"});
  empty.Start();
  ChildProcess rank = empty.StartRank("job", 0, 0, 1, 1, {"10"});
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_EQ(empty.daemon().Wait(), 0);
  EXPECT_EQ(empty.LogCount("--idle-exit"), 1);
  EXPECT_FALSE(std::filesystem::exists(empty.socket()));
  EXPECT_EQ(empty.GetRun("job").rows, 10u);
}

// As deploy/quickstart.sh --keep recommends, and for a job whose ranks have this address.
TEST(DaemonTest, CliReadsStoreOfAddressedDaemon) {
  Node node;
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_ADDRESS", node.address()}, {"HOME", node.spool_dir()}};
  options.unset = {"RANKLOG_STATE_DIR", "XDG_STATE_HOME"};
  const Finished without = RunToEnd({RANKLOG_CLI, "status"}, options);
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.output, HasSubstr(node.spool_dir() + "/.local/state/ranklog"));
  node.Start();
  const Finished with = RunToEnd({RANKLOG_CLI, "status"}, options);
  EXPECT_EQ(with.code, 0);
  EXPECT_THAT(with.output, AllOf(HasSubstr(node.state_dir()), HasSubstr("running, pid")));
  options.environment["RANKLOG_STATE_DIR"] = node.spool_dir();
  EXPECT_THAT(RunToEnd({RANKLOG_CLI, "status"}, options).output, HasSubstr("there is no store in"));
}

TEST(DaemonTest, TakesTheSocketThatSystemdPassed) {  // S35
  Node node;
  ChildProcess daemon = StartWithSocket(node);
  CountingJob counting(node, "job", /*rows=*/3000);
  ASSERT_TRUE(counting.WaitForReturned(3000));
  EXPECT_EQ(counting.Finish(), 0) << daemon.Output();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); })) << daemon.Output();
  counting.ExpectEveryReturnedRowOnce();
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Output();
  EXPECT_EQ(access(node.socket().c_str(), F_OK), 0) << "the socket is systemd's to remove";
}

TEST(DaemonTest, KeepsSystemdSocketAfterStoreRemoval) {
  Node node;
  ChildProcess daemon = StartWithSocket(node);
  ASSERT_EQ(node.StartRank("before", 0, 0, 1, 1, {"10"}).Wait(), 0) << daemon.Output();
  std::filesystem::rename(node.state_dir(), node.state_dir() + ".gone");
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(node.state_dir() + "/ranklog.db"); }))
      << daemon.Output();
  EXPECT_EQ(node.StartRank("after", 0, 0, 1, 1, {"10"}).Wait(), 0) << daemon.Output();
  EXPECT_EQ(node.GetRun("before").id, 0);
  EXPECT_NE(node.GetRun("after").id, 0);
}

TEST(DaemonTest, ReportsWhyItCannotStart) {
  TempDir dir;
  const std::string listen = "unix:" + dir.File("s");
  const std::string long_path = "unix:" + dir.File(std::string(110, 'x'));
  for (const bool background : {false, true}) {
    std::vector<std::string> args = {"--state-dir", dir.File("a"), "--listen", long_path};
    if (background) args.emplace_back("--background");
    const Finished refused = RunRanklogd(args);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.output, HasSubstr("the kernel accepts at most 107"));
    EXPECT_FALSE(std::filesystem::exists(dir.File("a")));
  }

  std::ofstream(dir.File("file")) << "not a directory";
  const Finished unwritable = RunRanklogd({"--state-dir", dir.File("file/b"), "--listen", listen});
  EXPECT_EQ(unwritable.code, 1);
  EXPECT_THAT(unwritable.output, HasSubstr(dir.File("file")));

  const Finished shared = RunRanklogd({"--state-dir", dir.File("d"), "--listen", "unix:/tmp/s"});
  EXPECT_EQ(shared.code, 1);
  EXPECT_THAT(shared.output, HasSubstr("cannot start: /tmp is shared with other users; choose a "
                                       "directory of your own with --listen"));
  EXPECT_THAT(RunRanklogd({"--state-dir", "/tmp", "--listen", listen}).output,
              HasSubstr("/tmp is shared with other users; choose a directory of your own with "
                        "--state-dir"));
  const std::string open = dir.File("open");
  std::filesystem::create_directory(open);
  std::filesystem::permissions(open, std::filesystem::perms(0755));
  EXPECT_THAT(
      RunRanklogd({"--state-dir", dir.File("d"), "--listen", "unix:" + open + "/d.sock"}).output,
      HasSubstr("cannot start: " + open + " is accessible to other users; run: chmod 700 " + open));
}

// Else ranks would look for the daemon at another address than the one where it listens.
TEST(DaemonTest, AllProgramsIgnoreWhiteSpaceAroundVariables) {
  const TempDir dir;
  const ChildProcess::Options options = {
      .environment = {{"RANKLOG_ADDRESS", "unix:" + dir.File("d.sock") + "\n"},
                      {"RANKLOG_STATE_DIR", dir.File("state") + " \n"},
                      {"RANKLOG_SPOOL_DIR", dir.path() + "\n"},
                      {"RANKLOG_START_DAEMON", "0\n"},
                      {"RANKLOG_DESTINATIONS", "local\n"},
                      {"RANKLOG_RUN_ID", "job\n"}},
      .unset = {},
      .output = ""};
  {
    ChildProcess daemon({RANKLOGD}, options);
    ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(dir.File("d.sock")); }))
        << daemon.Output();
    const Finished rank = RunToEnd({LOGGING_RANK, "10"}, options);
    EXPECT_EQ(rank.code, 0) << rank.output;
    EXPECT_THAT(RunToEnd({RANKLOG_CLI, "status"}, options).output,
                AllOf(HasSubstr(dir.File("d.sock")), HasSubstr(dir.File("state"))));
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0) << daemon.Output();
  }
  EXPECT_THAT(RunToEnd({RANKLOG_CLI, "runs"}, options).output, HasSubstr("job"));
}

TEST(DaemonTest, HelpAndVersionArePrinted) {
  EXPECT_THAT(RunRanklogd({"--help"}).output, AllOf(HasSubstr("Examples"), HasSubstr("--drain")));
  EXPECT_EQ(RunRanklogd({"--version"}).code, 0);
}

}  // namespace
}  // namespace ranklog::testing
