// The daemon finds a dead rank's ring in every way in which it can reach it. The ranks flush so
// rarely that their rows are only in the ring when they are killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "tests/integration/counting_job.h"
#include "tests/support/absent.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kOrphanRows = 1000;
const std::map<std::string, std::string> kNoFlush = {{"RANKLOG_FLUSH_INTERVAL_MS", "60000"}};

class OrphanSpoolTest : public ::testing::Test {
 protected:
  // Of a rank without a daemon.
  ChildProcess::Options UsualSpoolDirectory() const {
    ChildProcess::Options options;
    options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
    options.environment["RANKLOG_SPOOL_DIR"] = "";
    options.environment["RANKLOG_FINISH_TIMEOUT_MS"] = "50";
    options.unset = {"XDG_RUNTIME_DIR"};
    return options;
  }
  // Kills a rank that has attached and logged, and checks that the store has all of its rows.
  void KillAndExpectAll(CountingJob& counting) {
    ASSERT_TRUE(counting.WaitForReturned(kOrphanRows));
    ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").id != 0; })) << "it has not attached";
    // Rows that it logged before the answer to Hello follow that answer. Later ones wait.
    uint64_t rows = kOrphanRows;
    ASSERT_TRUE(WaitFor([&] {
      counting.LogMore(kOrphanRows);
      rows += kOrphanRows;
      return counting.WaitForReturned(rows) && counting.Stream().durable_seq <= rows - kOrphanRows;
    })) << "the rows came by another way";
    counting.rank().Kill();
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
    EXPECT_EQ(node_.GetRun("job").state, model::RunState::kCrashed);
    counting.ExpectEveryReturnedRowOnce();
  }
  // Returns the output of `ranklog` for the node's store.
  std::string Said(std::vector<std::string> command) const {
    command.insert(command.begin(), RANKLOG_CLI);
    command.insert(command.end(), {"--state-dir", node_.state_dir()});
    return RunToEnd(command).output;
  }
  bool SpoolsAreGone() const {
    std::error_code error;
    return std::filesystem::is_empty(node_.spool_dir(), error) || error;
  }

  Node node_;
};

// Returns a command that runs in its own mount namespace, after `prepare`, as in job containers.
std::vector<std::string> WithOwnMounts(const std::string& prepare) {
  return {"unshare", "--user", "--map-root-user",           "--mount",
          "sh",      "-c",     prepare + " && exec \"$@\"", "sh"};
}

bool CanMakeNamespaces() {
  std::vector<std::string> probe = WithOwnMounts("mount -t tmpfs none /dev/shm");
  probe.push_back("true");
  return RunToEnd(probe).code == 0;
}

TEST_F(OrphanSpoolTest, IsReadByItsPath) {
  node_.Start();
  CountingJob counting(node_, "job", kOrphanRows, kNoFlush);
  KillAndExpectAll(counting);
  EXPECT_TRUE(WaitFor([&] { return SpoolsAreGone(); }));
}

TEST_F(OrphanSpoolTest, ReadsRingInPrivateDevShm) {
  SKIP_WITHOUT(CanMakeNamespaces(), "mount namespaces of this kernel");
  node_.Start();
  auto environment = kNoFlush;
  environment["RANKLOG_SPOOL_DIR"] = "/dev/shm/own";
  CountingJob counting(node_, "job", kOrphanRows, environment,
                       WithOwnMounts("mount -t tmpfs none /dev/shm"));
  KillAndExpectAll(counting);
}

bool HoldsAnonymousMemory(pid_t pid) {
  std::error_code error;
  for (const auto& fd :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    if (std::filesystem::read_symlink(fd.path(), error).string().rfind("/memfd:", 0) == 0)
      return true;
  }
  return false;
}

TEST_F(OrphanSpoolTest, AnonymousRingIsReadByDescriptor) {
  SKIP_WITHOUT(CanMakeNamespaces(), "mount namespaces of this kernel");
  node_.Start();
  auto environment = kNoFlush;
  environment["RANKLOG_SPOOL_DIR"] = "/proc/none";
  CountingJob counting(node_, "job", kOrphanRows, environment,
                       WithOwnMounts("mount -t tmpfs -o ro none /dev/shm && "
                                     "mount -t tmpfs -o ro none /var/tmp"));
  // The descriptor follows the answer to Hello. If a rank dies earlier, its ring cannot be read.
  ASSERT_TRUE(WaitFor([&] { return HoldsAnonymousMemory(node_.daemon().pid()); }));
  KillAndExpectAll(counting);
}

TEST_F(OrphanSpoolTest, LiveUnnamedSpoolIsReported) {
  SKIP_WITHOUT(CanMakeNamespaces(), "mount namespaces of this kernel");
  node_.Start();
  CountingJob counting(node_, "job", kOrphanRows, {{"RANKLOG_SPOOL_DIR", "/proc/none"}},
                       WithOwnMounts("mount -t tmpfs -o ro none /dev/shm && "
                                     "mount -t tmpfs -o ro none /var/tmp"));
  ASSERT_TRUE(WaitFor([&] { return HoldsAnonymousMemory(node_.daemon().pid()); }));
  const auto unnamed =
      AllOf(HasSubstr("rank 0 of job: "), HasSubstr("/proc/none"),
            HasSubstr("; the spool is in anonymous memory; its rows are lost if this process"));
  const std::vector<std::vector<std::string>> commands = {
      {"runs"}, {"status"}, {"show", "job"}, {"doctor"}};
  for (const auto& command : commands) EXPECT_THAT(Said(command), unnamed) << command.front();
  EXPECT_THAT(Said({"doctor"}), HasSubstr("set RANKLOG_SPOOL_DIR"));
  counting.rank().Kill();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  for (const auto& command : commands) {
    EXPECT_THAT(Said(command), Not(HasSubstr("in anonymous memory"))) << command.front();
  }
}

TEST_F(OrphanSpoolTest, RingLeftWithoutDaemonIsRead) {  // S21
  CountingJob counting(node_, "job", kOrphanRows);
  ASSERT_TRUE(counting.WaitForReturned(kOrphanRows));
  counting.rank().Kill();
  node_.Start();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kCrashed);
  EXPECT_THAT(node_.GetRun("job").reason, HasSubstr(" without Finish()"));
  counting.ExpectEveryReturnedRowOnce();
  EXPECT_TRUE(WaitFor([&] { return SpoolsAreGone(); }));
}

// A rank without a configured spool directory puts its ring where all ranks may.
TEST_F(OrphanSpoolTest, FindsRingInAStandardDirectory) {
  const std::string standard = "/dev/shm/ranklog-" + std::to_string(geteuid());
  CountingJob counting(node_, "job", kOrphanRows, {{"RANKLOG_SPOOL_DIR", ""}});
  ASSERT_TRUE(counting.WaitForReturned(kOrphanRows));
  counting.rank().Kill();
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_SPOOL_DIR", node_.spool_dir()}};
  options.unset = {"XDG_RUNTIME_DIR"};
  const Finished doctor =
      RunToEnd({RANKLOG_CLI, "doctor", "--state-dir", node_.state_dir()}, options);
  EXPECT_THAT(doctor.output, HasSubstr(standard + ", "));  // a user may have other rings there

  Node other;  // of the same user, with its own store
  other.Start();
  node_.Start();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  counting.ExpectEveryReturnedRowOnce();
  EXPECT_EQ(other.GetRun("job").id, 0);
}

// The daemon and the rank die. The next daemon, for example systemd's, is not configured with the
// directory.
TEST_F(OrphanSpoolTest, FindsRingInALearnedDirectory) {
  const std::filesystem::path dir =
      std::filesystem::path(node_.state_dir()).parent_path() / "job's own";
  std::filesystem::create_directory(dir);
  node_.Start();
  auto environment = kNoFlush;
  environment["RANKLOG_SPOOL_DIR"] = dir.string();
  CountingJob counting(node_, "job", kOrphanRows, environment);
  ASSERT_TRUE(counting.WaitForReturned(kOrphanRows));
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").id != 0; })) << "it has not attached";
  node_.Kill();
  counting.rank().Kill();
  const std::vector<std::string> doctor = {RANKLOG_CLI, "doctor", "--state-dir", node_.state_dir()};
  EXPECT_THAT(RunToEnd(doctor).output, HasSubstr(dir.string() + ", 1 ring"));
  node_.Start();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  counting.ExpectEveryReturnedRowOnce();
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

// A daemon that a rank starts has the rank's directory in its environment; systemd's daemon has
// not.
TEST_F(OrphanSpoolTest, FindsRingInFormerlyConfiguredDirectory) {
  node_.Start();
  CountingJob counting(node_, "job", kOrphanRows, kNoFlush);
  ASSERT_TRUE(counting.WaitForReturned(kOrphanRows));
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").id != 0; })) << "it has not attached";
  node_.Kill();
  counting.rank().Kill();
  ChildProcess::Options options;
  options.unset = {"RANKLOG_SPOOL_DIR"};
  ChildProcess daemon({RANKLOGD, "--state-dir", node_.state_dir(), "--listen", node_.address()},
                      options);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); })) << daemon.Output();
  counting.ExpectEveryReturnedRowOnce();
  EXPECT_TRUE(SpoolsAreGone());
}

// A directory that any user can write counts as another user's.
constexpr char kTakenDevShm[] =
    "mount -t tmpfs none /dev/shm && mkdir /dev/shm/ranklog-0 && chmod 777 /dev/shm/ranklog-0";

TEST_F(OrphanSpoolTest, OccupiedDirectoryIsSkipped) {
  SKIP_WITHOUT(CanMakeNamespaces() && geteuid() == 0, "mount namespaces of this kernel, and root");
  ChildProcess::Options options = UsualSpoolDirectory();
  std::vector<std::string> rank = WithOwnMounts(kTakenDevShm);
  rank.insert(rank.end(), {TELLING_RANK, "50"});
  const Finished told = RunToEnd(rank, options);
  EXPECT_THAT(told.output,
              HasSubstr("returned 50, ring full 0: /dev/shm/ranklog-0 is writable by other "
                        "users; run: chmod 700 /dev/shm/ranklog-0; the spool is at "
                        "/var/tmp/ranklog-0/ring-"));
  std::vector<std::string> doctor = WithOwnMounts(kTakenDevShm);
  doctor.insert(doctor.end(), {RANKLOG_CLI, "doctor", "--state-dir", node_.state_dir()});
  EXPECT_THAT(RunToEnd(doctor, options).output,
              HasSubstr("/dev/shm/ranklog-0 is not a private directory of your own"));
  node_.Start();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").rows, 50u);
}

TEST_F(OrphanSpoolTest, MissingSpoolDirectoryIsReported) {
  SKIP_WITHOUT(CanMakeNamespaces() && geteuid() == 0, "mount namespaces of this kernel, and root");
  ChildProcess::Options options = UsualSpoolDirectory();
  std::vector<std::string> rank =
      WithOwnMounts(std::string(kTakenDevShm) + " && mount -t tmpfs -o ro none /var/tmp");
  rank.insert(rank.end(), {TELLING_RANK, "50"});
  options.environment["RANKLOG_QUIET"] = "0";
  EXPECT_THAT(RunToEnd(rank, options).output,
              AllOf(HasSubstr("the spool is in anonymous memory"),
                    HasSubstr("the rest is lost with this process")));
}

// The daemon may find the two rings in any order. There are several jobs, so that both orders
// occur.
TEST_F(OrphanSpoolTest, RestartedRanksRingsKeepTheirOrder) {
  const int jobs = 6;
  for (int i = 0; i < jobs; ++i) {
    const std::string job = "job" + std::to_string(i);
    CountingJob crashed(node_, job, kOrphanRows);
    ASSERT_TRUE(crashed.WaitForReturned(kOrphanRows));
    crashed.rank().Kill();
    ChildProcess again =
        node_.StartRank(job, 0, 0, 1, 1, {"100", "0", "0", "none", std::to_string(kOrphanRows)},
                        {{"RANKLOG_FINISH_TIMEOUT_MS", "50"}, {"RANKLOG_RESUME", "allow"}});
    ASSERT_EQ(again.Wait(), 3) << again.Output();  // spooled
  }
  node_.Start();
  for (int i = 0; i < jobs; ++i) {
    const std::string job = "job" + std::to_string(i);
    ASSERT_TRUE(WaitFor([&] {
      return node_.RunHasEnded(job) && node_.GetRun(job).rows == kOrphanRows + 100;
    })) << node_.GetRun(job).rows;
    EXPECT_EQ(node_.GetRun(job).state, model::RunState::kFinished) << node_.GetRun(job).reason;
    EXPECT_EQ(node_.GetRun(job).late_rows, 0u);
  }
}

TEST_F(OrphanSpoolTest, UnreportedFinishStillFinishes) {
  ChildProcess rank =
      node_.StartRank("job", 0, 0, 1, 1, {"100", "7"}, {{"RANKLOG_FINISH_TIMEOUT_MS", "50"}});
  EXPECT_EQ(rank.Wait(), 3) << rank.Output();  // spooled
  node_.Start();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFailed);
  EXPECT_EQ(node_.GetRun("job").exit_code, 7);
  EXPECT_EQ(node_.GetRun("job").rows, 100u);
}

}  // namespace
}  // namespace ranklog::testing
