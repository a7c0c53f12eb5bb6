// Where a daemon keeps its log without a setting, if the home is unusable for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/container.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Has its own /var/tmp, since that is the last place in which a daemon keeps its log.
class StateDirsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
    var_tmp_ = std::make_unique<SmallDisk>("/var/tmp", "64m");
    ASSERT_TRUE(var_tmp_->mounted());
    options_.environment = {{"HOME", home_.path()},
                            {"RANKLOG_ADDRESS", address()},
                            {"RANKLOG_SPOOL_DIR", home_.path()}};
    options_.unset = {"RANKLOG_STATE_DIR", "XDG_STATE_HOME"};
  }

  std::string address() const { return "unix:" + home_.File("d.sock"); }
  static std::string Fallback() { return "/var/tmp/ranklog-" + std::to_string(geteuid()); }

  // Runs a daemon, and a job of ten rows.
  void LogTenRows(const std::string& job) {
    ChildProcess::Options options = options_;
    options.environment["RANKLOG_RUN_ID"] = job;
    options.environment["RANKLOG_DESTINATIONS"] = "local";
    const Finished rank = RunToEnd({LOGGING_RANK, "10"}, options);
    EXPECT_EQ(rank.code, 0) << rank.output;
  }
  std::string Ranklog(const std::string& command) {
    return RunToEnd({RANKLOG_CLI, command}, options_).output;
  }

  const TempDir home_;
  std::unique_ptr<SmallDisk> var_tmp_;
  ChildProcess::Options options_;
};

TEST_F(StateDirsTest, UnusableHomeIsSkipped) {  // S44
  for (const bool has_home : {true, false}) {
    if (has_home) {
      options_.environment["HOME"] = "/proc";  // nothing can be created there
    } else {
      options_.environment.erase("HOME");
      options_.unset.push_back("HOME");
    }
    ChildProcess daemon({RANKLOGD}, options_);
    ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(home_.File("d.sock")); }))
        << daemon.Output();
    const std::string job = has_home ? "with" : "without";
    LogTenRows(job);
    EXPECT_THAT(Ranklog("status"), HasSubstr(Fallback()));
    const std::string why =
        "/proc/.local/state/ranklog is skipped: cannot create /proc/.local: No such file or "
        "directory";
    EXPECT_THAT(Ranklog("doctor"), HasSubstr(has_home ? why : ""));
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
    EXPECT_THAT(Ranklog("doctor"), HasSubstr(has_home ? why : "")) << "without a daemon";
    EXPECT_THAT(daemon.Output(), HasSubstr(has_home ? "the log is kept in " + Fallback() : ""));
    EXPECT_THAT(Ranklog("runs"), HasSubstr(job)) << "without a daemon";
  }
}

// Otherwise a rank whose daemon of systemd or Slurm is gone would begin a second store, and the
// tracker would get rows of both.
TEST_F(StateDirsTest, AdministratorsDirectoryComesFirst) {
  const SmallDisk var_lib("/var/lib/ranklog", "64m");
  ASSERT_TRUE(var_lib.mounted());
  const std::string dir = "/var/lib/ranklog/" + std::to_string(geteuid());
  ASSERT_EQ(mkdir(dir.c_str(), 0700), 0);
  options_.environment["WANDB_BASE_URL"] = "http://127.0.0.1:1";
  options_.environment["WANDB_API_KEY"] = std::string(40, 'k');
  options_.environment["RANKLOG_DESTINATIONS"] = "wandb";
  options_.environment["RANKLOG_RUN_ID"] = "job";
  {
    ChildProcess daemon({RANKLOGD, "--state-dir", dir}, options_);
    ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(home_.File("d.sock")); }));
    EXPECT_EQ(RunToEnd({LOGGING_RANK, "10"}, options_).code, 0);
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  EXPECT_THAT(Ranklog("runs"), HasSubstr("job")) << "without a daemon";
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "sync", "--timeout", "1s"}, options_).code, 1);
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "doctor"}, options_).code, 1) << "rows wait, no daemon delivers";

  options_.environment["RANKLOG_RUN_ID"] = "next";
  options_.environment["RANKLOG_DAEMON"] = RANKLOGD;
  EXPECT_EQ(RunToEnd({LOGGING_RANK, "10"}, options_).code, 0) << "by a daemon that it started";
  EXPECT_THAT(Ranklog("runs"), AllOf(HasSubstr("job"), HasSubstr("next")));
  EXPECT_THAT(Ranklog("status"), HasSubstr(dir));
  EXPECT_EQ(RunToEnd({RANKLOG_CLI, "stop"}, options_).code, 0);
}

// Containers that share a home have their own process ids.
TEST_F(StateDirsTest, HomeHeldElsewhereIsSkipped) {  // S44
  const auto container = [&](const std::string& socket) {
    return InContainer({RANKLOGD, "--listen", "unix:" + home_.File(socket)});
  };
  ChildProcess first(container("first.sock"), options_);
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(home_.File("first.sock")); }))
      << first.Output();
  ChildProcess second(container("second.sock"), options_);
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(home_.File("second.sock")); }))
      << second.Output();
  EXPECT_THAT(second.Output(),
              AllOf(HasSubstr("is in use by a daemon of another container or node"),
                    HasSubstr("; stop it there, or choose another directory with --state-dir"),
                    HasSubstr("the log is kept in " + Fallback())));
}

TEST_F(StateDirsTest, SecondDaemonOnNodeIsRefused) {
  ChildProcess first({RANKLOGD}, options_);
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(home_.File("d.sock")); }))
      << first.Output();
  const Finished second =
      RunToEnd({RANKLOGD, "--listen", "unix:" + home_.File("second.sock")}, options_);
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output, HasSubstr("is in use by process " + std::to_string(first.pid())));
}

TEST_F(StateDirsTest, DoctorNamesStoreLeftElsewhere) {
  options_.environment["HOME"] = "/proc";
  options_.environment["WANDB_BASE_URL"] = "http://127.0.0.1:1";
  {
    ChildProcess daemon({RANKLOGD}, options_);
    ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(home_.File("d.sock")); }));
    options_.environment["RANKLOG_DESTINATIONS"] = "wandb";
    options_.environment["WANDB_API_KEY"] = std::string(40, 'k');
    ChildProcess::Options options = options_;
    options.environment["RANKLOG_RUN_ID"] = "left";
    EXPECT_EQ(RunToEnd({LOGGING_RANK, "10"}, options).code, 0);
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  options_.environment["HOME"] = home_.path();
  ChildProcess daemon({RANKLOGD}, options_);
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(home_.File("d.sock")); }));
  EXPECT_THAT(Ranklog("status"), Not(HasSubstr(Fallback())));
  EXPECT_THAT(Ranklog("doctor"), HasSubstr("ranklog sync --state-dir " + Fallback()));
}

}  // namespace
}  // namespace ranklog::testing
