// The daemon that a rank starts if none answers: one for all ranks of a node, and not a child of
// any.

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "tests/integration/counting_job.h"
#include "tests/integration/node.h"
#include "tests/integration/processes.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/file_content.h"
#include "tests/support/own_mounts.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kRanks = 4;
constexpr char kSecret[] = "0123456789secret";
constexpr char kFileLimit[] = "--fsize=2097152";  // the small spool fits, the store does not
constexpr uint64_t kFileLimitBytes = 2 << 20;

// Returns how many descriptors of a process lead to `target`.
int DescriptorsTo(pid_t pid, const std::string& target) {
  int count = 0;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    count += std::filesystem::read_symlink(entry.path(), error) == target;
  }
  return count;
}

class StartDaemonTest : public ::testing::Test {
 protected:
  ~StartDaemonTest() override {
    for (const pid_t pid : ProcessesWith(node_.address())) kill(pid, SIGKILL);
  }

  std::vector<pid_t> Daemons() const { return ProcessesWith(node_.state_dir()); }

  std::vector<ChildProcess> StartRanks(const std::string& job) const {
    std::vector<ChildProcess> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::map<std::string, std::string> environment = StartsDaemon();
      environment["WANDB_API_KEY"] = kSecret;
      ranks.push_back(node_.StartRank(job, rank, rank, kRanks, kRanks, {"200"}, environment));
    }
    return ranks;
  }

  std::map<std::string, std::string> StartsDaemon() const {
    return {{"RANKLOG_START_DAEMON", "true"},
            {"RANKLOG_DAEMON", RANKLOGD},
            {"RANKLOG_STATE_DIR", node_.state_dir()},
            {"RANKLOG_FINISH_TIMEOUT_MS", "60000"},
            {"RANKLOG_DESTINATIONS", "local"}};
  }

  // Returns the environment of a rank whose spool fits into kFileLimit.
  std::map<std::string, std::string> StartsDaemonWithASmallSpool() const {
    std::map<std::string, std::string> environment = StartsDaemon();
    environment["RANKLOG_SPOOL_BYTES"] = "1048576";
    return environment;
  }

  Node node_{{"--drain", "5s", "--transmit-interval", "20ms"}};
};

TEST_F(StartDaemonTest, OneDaemonOutlivesAllRanks) {  // S21
  // The ranks inherit it; the daemon must not.
  int canary[2];
  ASSERT_EQ(pipe(canary), 0);
  const std::string canary_link =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(canary[0])).string();

  std::vector<ChildProcess> ranks = StartRanks("job");
  ASSERT_TRUE(WaitFor([&] { return !Daemons().empty(); }));
  for (ChildProcess& rank : ranks) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  const std::vector<pid_t> daemons = Daemons();
  ASSERT_THAT(daemons, SizeIs(1));
  const pid_t daemon = daemons[0];

  EXPECT_EQ(StatField(daemon, 3), std::to_string(daemon)) << "it has no session of its own";
  EXPECT_EQ(DescriptorsTo(daemon, canary_link), 0);
  EXPECT_EQ(DescriptorsTo(daemon, "/dev/null"), 1);  // its stdin
  EXPECT_THAT(ReadProc(daemon, "cmdline"), Not(HasSubstr(kSecret)));
  EXPECT_THAT(ReadProc(daemon, "environ"), HasSubstr("RANKLOG_STARTED_BY=rank"));
  EXPECT_THAT(ReadProc(daemon, "environ"), Not(HasSubstr(kSecret)));
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFinished);
  const auto streams = node_.Reader()->Streams(node_.GetRun("job").id);
  ASSERT_TRUE(streams.ok()) << streams.status();
  EXPECT_THAT(*streams, SizeIs(kRanks));
  for (const model::Stream& stream : *streams) EXPECT_EQ(stream.durable_seq, 200u);

  // It serves the next job too.
  std::vector<ChildProcess> next = StartRanks("next");
  for (ChildProcess& rank : next) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_THAT(Daemons(), ElementsAre(daemon));

  kill(daemon, SIGTERM);
  EXPECT_TRUE(WaitFor([&] { return !Runs(daemon); }));
  EXPECT_THAT(Daemons(), SizeIs(0));
  close(canary[0]);
  close(canary[1]);
}

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

// With a umask that removes the user's own rights, only root could open rings, locks and the state
// directory. So neither the rows nor the daemon would be reachable.
TEST_F(StartDaemonTest, RankUmaskDoesNotAffectDaemon) {
  const auto run_rank = [&](const std::string& job, const std::string& starts_daemon,
                            const std::string& timeout_ms) {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment(job, 0, 0, 1, 1);
    for (const auto& [name, value] : StartsDaemon()) options.environment[name] = value;
    options.environment["RANKLOG_START_DAEMON"] = starts_daemon;
    options.environment["RANKLOG_FINISH_TIMEOUT_MS"] = timeout_ms;
    return RunToEnd({"sh", "-c", "umask 0777; exec \"$0\" \"$@\"", LOGGING_RANK, "200"}, options);
  };
  run_rank("left", "0", "100");
  const std::filesystem::directory_iterator rings(node_.spool_dir());
  ASSERT_NE(rings, std::filesystem::directory_iterator());
  for (const auto& ring : rings) EXPECT_EQ(ModeOf(ring.path()), 0600u) << ring.path();

  const Finished rank = run_rank("job", "1", "60000");
  EXPECT_EQ(rank.code, 0) << rank.output;
  for (const char* job : {"left", "job"}) {
    EXPECT_TRUE(WaitFor([&] { return node_.RunHasEnded(job); })) << job;
    EXPECT_EQ(node_.GetRun(job).rows, 200u) << job;
  }
  EXPECT_EQ(ModeOf(node_.state_dir()), 0700u);
  const std::filesystem::path beside = std::filesystem::path(node_.socket()).parent_path();
  for (const char* file : {"start.lock", "ranklogd.log", "state/lock", "state/ranklog.db"}) {
    EXPECT_EQ(ModeOf(beside / file), 0600u) << file;
  }
}

// Ranks that attach after the daemon was killed start another one.
TEST_F(StartDaemonTest, LaterRanksReplaceKilledDaemon) {
  std::vector<ChildProcess> first = StartRanks("first");
  for (ChildProcess& rank : first) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  const std::vector<pid_t> daemons = Daemons();
  ASSERT_THAT(daemons, SizeIs(1));
  kill(daemons[0], SIGKILL);
  ASSERT_TRUE(WaitFor([&] { return Daemons().empty(); }));

  std::vector<ChildProcess> second = StartRanks("second");
  for (ChildProcess& rank : second) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_THAT(Daemons(), SizeIs(1));
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("second"); }));
  const auto streams = node_.Reader()->Streams(node_.GetRun("second").id);
  ASSERT_TRUE(streams.ok()) << streams.status();
  ASSERT_THAT(*streams, SizeIs(kRanks));
  for (const model::Stream& stream : *streams) EXPECT_EQ(stream.durable_seq, 200u);
}

// As after `ranklog stop` of a daemon to which an administrator gave its own directory. A second
// store for the run would not know which rows the tracker has from the first store, which still
// delivers.
TEST_F(StartDaemonTest, KeepsStoreOfPreviousDaemon) {
  const TempDir home;
  const std::string own = home.File("ranklog");  // where a rank would look
  std::filesystem::create_directory(own);
  std::filesystem::permissions(own, std::filesystem::perms::owner_all);
  FakeWandb wandb;
  node_.Start();
  std::map<std::string, std::string> environment = StartsDaemon();
  environment.merge(WandbAt(wandb.url()));
  environment["RANKLOG_DESTINATIONS"] = "wandb";
  environment["RANKLOG_STATE_DIR"] = "";
  environment["XDG_STATE_HOME"] = home.path();
  const std::string stop = home.File("stop");
  ChildProcess rank =
      node_.StartRank("job", 0, 0, 1, 1, {"1000000", "0", "1000", stop}, environment);
  const auto delivered = [&] { return wandb.run("job").history.size(); };
  ASSERT_TRUE(WaitFor([&] { return delivered() > 100; })) << rank.Output();

  wandb.Inject({.times = 3, .code = 503});
  node_.daemon().Signal(SIGTERM);
  const std::string log = std::filesystem::path(node_.socket()).parent_path() / "ranklogd.log";
  ASSERT_TRUE(WaitFor([&] {
    return absl::StrContains(FileContent(log), node_.state_dir() + " is in use") ||
           std::filesystem::exists(own + "/ranklog.db");
  }));
  EXPECT_FALSE(std::filesystem::exists(own + "/ranklog.db"));
  EXPECT_EQ(node_.daemon().Wait(), 0);
  const size_t before = delivered();
  EXPECT_TRUE(WaitFor([&] { return delivered() > before + 100; })) << FileContent(log);
  std::ofstream{stop};
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_TRUE(WaitFor([&] {  // the store is updated a moment after the tracker
    const auto deliveries = node_.Reader()->Deliveries(node_.GetRun("job").id);
    return deliveries.ok() && deliveries->size() == 1 && deliveries->front().complete;
  }));
  EXPECT_THAT(rank.Output(), HasSubstr(absl::StrCat("logged ", delivered(), ", durable")));
  EXPECT_THAT(wandb.errors(), SizeIs(0));

  ChildProcess::Options options;
  options.environment = {{"WANDB_API_KEY", environment["WANDB_API_KEY"]}};
  const Finished verify =
      RunToEnd({RANKLOG_CLI, "verify", "job", "--state-dir", node_.state_dir()}, options);
  EXPECT_EQ(verify.code, 0) << verify.output;
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "stop", "--state-dir", node_.state_dir()}).code, 0);
  // It has let its store go by now. A sanitizer still looks for leaks.
  EXPECT_TRUE(WaitFor([&] { return ProcessesWith(node_.address()).empty(); }));
}

// The next daemon sees another file system, as in a container. The rows are kept nevertheless.
TEST_F(StartDaemonTest, MissingFormerStoreIsReplaced) {
  const TempDir home;
  node_.Start();
  std::map<std::string, std::string> environment = StartsDaemon();
  environment["RANKLOG_STATE_DIR"] = "";
  environment["XDG_STATE_HOME"] = home.path();
  const std::string stop = home.File("stop");
  ChildProcess rank =
      node_.StartRank("job", 0, 0, 1, 1, {"1000000", "0", "1000", stop}, environment);
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").rows > 0; }));
  node_.Kill();
  std::filesystem::rename(node_.state_dir(), home.File("moved"));
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(home.File("ranklog/ranklog.db")); }));
  std::ofstream{stop};
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_FALSE(std::filesystem::exists(node_.state_dir()));
}

// The shell's `ulimit -f` is meant for the training. SIGXFSZ killed each daemon that a rank
// started.
TEST_F(StartDaemonTest, LiftsSoftFileSizeLimit) {
  constexpr uint64_t kRows = 8000;
  CountingJob counting(node_, "job", kRows, StartsDaemonWithASmallSpool(),
                       {"prlimit", std::string(kFileLimit) + ":unlimited"}, /*metrics=*/100);
  ASSERT_TRUE(counting.WaitForReturned(kRows));
  EXPECT_EQ(counting.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  counting.ExpectEveryReturnedRowOnce();
  EXPECT_EQ(node_.Counter("store.failed_commits"), 0u);
  const std::string store = node_.state_dir() + "/ranklog.db";
  EXPECT_GT(std::max(std::filesystem::file_size(store), std::filesystem::file_size(store + "-wal")),
            kFileLimitBytes);
  EXPECT_THAT(Daemons(), SizeIs(1));
}

TEST_F(StartDaemonTest, SurvivesHardFileSizeLimit) {
  CountingJob counting(node_, "job", 0, StartsDaemonWithASmallSpool(), {"prlimit", kFileLimit},
                       /*metrics=*/100);
  ASSERT_TRUE(WaitFor([&] { return node_.Counter("store.failed_commits") >= 3; }));
  ASSERT_TRUE(WaitFor([&] { return counting.refused() > 0; }));
  const std::vector<pid_t> daemons = Daemons();
  ASSERT_THAT(daemons, SizeIs(1));
  const std::string log =
      FileContent(std::filesystem::path(node_.socket()).parent_path() / "ranklogd.log");
  EXPECT_THAT(log, HasSubstr("File too large"));
  EXPECT_THAT(log, HasSubstr("ulimit -f"));
  EXPECT_THAT(RunToEnd({RANKLOG_CLI, "daemon-log", "--address", node_.address()}).output,
              HasSubstr("File too large"));
  counting.rank().Kill();
  kill(daemons[0], SIGTERM);
  ASSERT_TRUE(WaitFor([&] { return Daemons().empty(); })) << "it was killed, or does not stop";

  node_.Start();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  counting.ExpectEveryReturnedRowOnce();
}

// A rank pinned to a core would share it with the daemon, and the rank's directory could not be
// unmounted.
TEST_F(StartDaemonTest, LeavesTheRanksCpuAndDirectory) {
  CountingJob counting(node_, "job", 100, StartsDaemon(),
                       {"taskset", "-c", "0", "nice", "-n", "5", "env", "-C", "/usr"});
  ASSERT_TRUE(counting.WaitForReturned(100)) << counting.rank().Output();
  EXPECT_EQ(counting.Finish(), 0) << counting.rank().Output();
  const std::vector<pid_t> daemons = Daemons();
  ASSERT_THAT(daemons, SizeIs(1));
  const auto cpus = [](pid_t pid) {
    const std::string status = ReadProc(pid, "status");
    return status.substr(status.find("Cpus_allowed:"), 60);
  };
  EXPECT_EQ(cpus(daemons[0]), cpus(getpid()));
  constexpr int kNice = 16;
  if (geteuid() == 0) {
    EXPECT_EQ(StatField(daemons[0], kNice), "0");
  }
  std::error_code error;
  const auto directory =
      std::filesystem::read_symlink("/proc/" + std::to_string(daemons[0]) + "/cwd", error);
  if (!error) {
    EXPECT_EQ(directory, "/");
  }
}

// For example conda's, with other versions of libraries: no daemon could start.
TEST_F(StartDaemonTest, IgnoresLibraryPathsOfTraining) {
  TempDir conda;
  std::ofstream(conda.File("libsqlite3.so.0")) << "a library of another system";
  std::map<std::string, std::string> environment = StartsDaemon();
  environment["LD_LIBRARY_PATH"] = conda.path();
  environment["LD_PRELOAD"] = conda.File("missing.so");
  environment["LD_AUDIT"] = conda.File("missing.so");
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {"200"}, environment);
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  const std::vector<pid_t> daemons = Daemons();
  ASSERT_THAT(daemons, SizeIs(1));
  EXPECT_THAT(ReadProc(daemons[0], "environ"), Not(HasSubstr(conda.path())));
}

// The daemon outlives the training. If it inherits sockets and files of the training, they stay
// open. close_range() is missing before Linux 5.9, and old containers' filters refuse it.
TEST_F(StartDaemonTest, InheritsNoDescriptorWithoutCloseRange) {
  int canary[2];
  ASSERT_EQ(pipe(canary), 0);
  const std::string canary_link =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(canary[0])).string();
  std::vector<int> copies = {fcntl(canary[0], F_DUPFD, 900)};
  for (int i = 0; i < 300; ++i) copies.push_back(dup(canary[0]));

  std::vector<std::vector<std::string>> wrappers = {{WITHOUT_CLOSE_RANGE, std::to_string(ENOSYS)},
                                                    {WITHOUT_CLOSE_RANGE, std::to_string(EPERM)}};
#ifndef ABSL_HAVE_ADDRESS_SANITIZER  // it reads /proc
  if (HasOwnMounts()) {
    wrappers.push_back({"unshare", "--mount", "sh", "-c",
                        "mount -t tmpfs none /proc && exec \"$@\"", "sh", WITHOUT_CLOSE_RANGE,
                        std::to_string(ENOSYS)});
  }
#endif
  for (size_t i = 0; i < wrappers.size(); ++i) {
    CountingJob counting(node_, "job" + std::to_string(i), 100, StartsDaemon(), wrappers[i]);
    ASSERT_TRUE(counting.WaitForReturned(100)) << counting.rank().Output();
    EXPECT_GT(DescriptorsTo(counting.rank().pid(), canary_link), 300);
    EXPECT_EQ(counting.Finish(), 0) << counting.rank().Output();
    const std::vector<pid_t> daemons = Daemons();
    ASSERT_THAT(daemons, SizeIs(1));
    EXPECT_EQ(DescriptorsTo(daemons[0], canary_link), 0) << i;
    EXPECT_EQ(DescriptorsTo(daemons[0], "/dev/null"), 1) << i;
    kill(daemons[0], SIGKILL);
    ASSERT_TRUE(WaitFor([&] { return Daemons().empty(); }));
  }
  for (const int fd : copies) close(fd);
  close(canary[0]);
  close(canary[1]);
}

// The sync may deliver for hours, but the rank's ring fills much earlier. The daemon gets the key
// of the sync's run only from the sync.
TEST_F(StartDaemonTest, DaemonTakesOverStoreFromSync) {
  auto wandb = std::make_unique<FakeWandb>();
  const int port = wandb->port();
  std::map<std::string, std::string> to_wandb = WandbAt(wandb->url());
  to_wandb["RANKLOG_DESTINATIONS"] = "wandb";
  wandb.reset();
  ChildProcess left = node_.StartRank("left", 0, 0, 1, 1, {"300", "kill"}, to_wandb);
  ASSERT_EQ(left.Wait(), -SIGKILL);
  ChildProcess::Options options;
  options.environment = {{"WANDB_API_KEY", to_wandb["WANDB_API_KEY"]},
                         {"RANKLOG_ADDRESS", node_.address()},
                         {"RANKLOG_SPOOL_DIR", node_.spool_dir()}};
  ChildProcess sync({RANKLOG_CLI, "sync", "--state-dir", node_.state_dir(), "--timeout", "1h"},
                    options);
  ASSERT_TRUE(WaitFor([&] { return absl::StrContains(sync.Output(), "127.0.0.1"); }));

  const absl::Time began = SteadyNow();
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {"300"}, StartsDaemon());
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_LT(SteadyNow() - began, absl::Seconds(8)) << "it waited for a second daemon";
  EXPECT_THAT(sync.Output(), HasSubstr("a daemon is starting; it takes over"));
  // the directory's name is on its command line
  EXPECT_THAT(Daemons(), SizeIs(2)) << "the sync is there, too";
  wandb = std::make_unique<FakeWandb>(port);
  EXPECT_EQ(sync.Wait(), 0) << sync.Output();
  EXPECT_THAT(sync.Output(), HasSubstr("test:left  wandb  300 of 300 rows delivered"));
  EXPECT_THAT(wandb->run("left").history, SizeIs(300));
}

}  // namespace
}  // namespace ranklog::testing
