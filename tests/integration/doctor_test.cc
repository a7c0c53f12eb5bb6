// `ranklog doctor` names each broken set-up, and says what to do about it. S37.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/cli_fixture.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/container.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/own_mounts.h"
#include "tests/support/status_matchers.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A user with only a state directory and a directory for the socket, both valid.
class DoctorTest : public ::testing::Test {
 protected:
  DoctorTest() {
    for (const char* dir : {"state", "socket", "home"}) {
      std::filesystem::create_directory(dir_.File(dir));
      chmod(dir_.File(dir).c_str(), 0700);
    }
    options_.environment = {{"RANKLOG_ADDRESS", "unix:" + dir_.File("socket/d.sock")},
                            {"HOME", dir_.File("home")}};
    options_.unset = {"WANDB_API_KEY",     "WANDB_BASE_URL",  "NETRC",      "XDG_CONFIG_HOME",
                      "RANKLOG_SPOOL_DIR", "XDG_RUNTIME_DIR", "http_proxy", "all_proxy"};
  }

  Finished Doctor(std::vector<std::string> before = {}, std::vector<std::string> after = {}) {
    before.insert(before.end(), {RANKLOG_CLI, "doctor", "--state-dir", dir_.File("state")});
    before.insert(before.end(), after.begin(), after.end());
    return RunToEnd(before, options_);
  }
  void ExpectSound() {
    const Finished sound = Doctor();
    EXPECT_EQ(sound.code, 0) << sound.output;
  }
  // Checks that the exit code is 1, and that the output contains all of these texts.
  void ExpectAdvice(const Finished& finished, const std::vector<std::string>& texts) {
    EXPECT_EQ(finished.code, 1) << finished.output;
    for (const std::string& text : texts) EXPECT_THAT(finished.output, HasSubstr(text));
  }

  const TempDir dir_;
  ChildProcess::Options options_;
};

TEST_F(DoctorTest, ADaemonThatHangsIsNamed) {
  Node node;
  node.Start();
  options_.environment["RANKLOG_ADDRESS"] = node.address();
  const auto ask = [&](const char* command) {
    return RunToEnd({RANKLOG_CLI, command, "--state-dir", node.state_dir()}, options_);
  };
  node.daemon().Signal(SIGSTOP);
  const std::string silent = "does not answer at " + node.address() + ": is ";
  ExpectAdvice(ask("doctor"), {"it " + silent + "process " + std::to_string(node.daemon().pid())});
  EXPECT_THAT(ask("status").output, HasSubstr("but " + silent));
  node.daemon().Signal(SIGCONT);
  EXPECT_THAT(ask("status").output, Not(HasSubstr(silent)));
}

TEST_F(DoctorTest, StatusNamesHungDaemonAtAddress) {
  Node node;
  node.Start();
  node.daemon().Signal(SIGSTOP);
  const Finished told = RunToEnd({RANKLOG_CLI, "status", "--address", node.address()}, options_);
  node.daemon().Signal(SIGCONT);
  ExpectAdvice(
      told, {absl::StrCat("no daemon answers at ", node.address(), " in time: is process ",
                          node.daemon().pid(), " stopped (kill -CONT ", node.daemon().pid(), ")")});
}

// RANKLOG_STATE_DIR was set in this shell only: the daemon of the ranks uses another directory.
TEST_F(DoctorTest, DaemonOfOtherDirectoryIsNamed) {
  Node node;
  node.Start();
  options_.environment["RANKLOG_ADDRESS"] = node.address();
  options_.environment["RANKLOG_STATE_DIR"] = dir_.File("state");
  const Finished told = RunToEnd({RANKLOG_CLI, "doctor"}, options_);
  ExpectAdvice(told, {absl::StrCat("pid ", node.daemon().pid(), " answers at ", node.address(),
                                   " and keeps ", node.state_dir()),
                      "ranklog doctor --address " + node.address()});
  const auto doctor = [&] {
    return RunToEnd({RANKLOG_CLI, "doctor", "--address", node.address()}, options_);
  };
  const Finished its = doctor();
  EXPECT_EQ(its.code, 0) << its.output;
  EXPECT_THAT(its.output, HasSubstr(node.state_dir() + "/ranklog.db"));
  node.Kill();
  ExpectAdvice(doctor(), {"no daemon answers at " + node.address(),
                          "run: ranklogd --background --listen " + node.address()});
}

// For example, one bit of the header flipped. It must not look like a store that is yet to be made.
TEST_F(DoctorTest, StoreWithoutVersionIsDamaged) {
  Node node;
  node.Start();
  ASSERT_EQ(node.Terminate(), 0);
  node.EditStore("PRAGMA user_version = 0");
  const Finished told =
      RunToEnd({RANKLOG_CLI, "doctor", "--state-dir", node.state_dir()}, options_);
  ExpectAdvice(told, {"store       damaged: ", "ranklog recover "});
}

TEST_F(DoctorTest, ValidSetUpNeedsNoAdvice) {
  const Finished sound = Doctor({}, {"--json"});
  EXPECT_EQ(sound.code, 0) << sound.output;
  const Json parts = Parse(sound.output)["parts"];
  for (const char* part :
       {"directory", "disk", "socket", "daemon", "store", "clock", "limits", "spool room"}) {
    EXPECT_TRUE(std::any_of(parts.begin(), parts.end(), [&](const Json& each) {
      return each["part"] == part;
    })) << part;
  }
}

// Others cannot read the store's files in a directory that they can only list.
TEST_F(DoctorTest, RefusesStateDirOnlyIfDaemonDoes) {
  const std::string state = dir_.File("state");
  chmod(state.c_str(), 0755);
  ExpectSound();
  chmod(state.c_str(), 0775);
  ExpectAdvice(Doctor(), {state + " is writable by other users; run: chmod go-w " + state});
  const Finished daemon = RunRanklogd({"--state-dir", state, "--listen", "unix:" + dir_.File("s")});
  EXPECT_EQ(daemon.code, 1);
  EXPECT_THAT(daemon.output, HasSubstr("run: chmod go-w " + state));
  ExpectAdvice(RunToEnd({RANKLOG_CLI, "doctor", "--state-dir", "/proc/none"}, options_),
               {"cannot create /proc/none: ", "choose another directory with --state-dir"});
}

TEST_F(DoctorTest, InvalidSocketAddressesGetAdvice) {
  chmod(dir_.File("socket").c_str(), 0755);
  ExpectAdvice(Doctor(), {"is accessible to other users; run: chmod 700 " + dir_.File("socket")});
  options_.environment["RANKLOG_ADDRESS"] = "unix:" + dir_.File("none/d.sock");
  ExpectSound();  // a daemon makes the directory
  options_.environment["RANKLOG_ADDRESS"] = "unix:" + dir_.File("none/none/d.sock");
  ExpectAdvice(Doctor(), {"cannot create the directory " + dir_.File("none/none") +
                          ": No such file or directory; choose a directory of your own with "
                          "RANKLOG_ADDRESS"});
  std::ofstream(dir_.File("file")) << "no socket";
  options_.environment["RANKLOG_ADDRESS"] = "unix:" + dir_.File("file");
  ExpectAdvice(Doctor(), {"file is not a socket: no daemon listens", "remove this file"});
  options_.environment["RANKLOG_ADDRESS"] = "unix:" + dir_.File(std::string(120, 'x'));
  ExpectAdvice(Doctor(), {"its path has more than 107 bytes"});
  options_.environment["RANKLOG_ADDRESS"] = "localhost:1234";
  ExpectAdvice(Doctor(), {"unix:/PATH"});
  ExpectAdvice(RunToEnd({RANKLOG_CLI, "runs"}, options_),
               {"RANKLOG_ADDRESS: 'localhost:1234' is not an address; use unix:PATH"});
}

// The daemon was started without the variable, or the variable is of another job.
TEST_F(DoctorTest, AddressVariableThatMissesDaemonIsNamed) {
  const std::string run = dir_.File("run"), socket = run + "/ranklog/ranklogd.sock";
  for (const std::string& made : {run, run + "/ranklog"}) ASSERT_EQ(mkdir(made.c_str(), 0700), 0);
  const ChildProcess daemon(
      {RANKLOGD, "--state-dir", dir_.File("state"), "--listen", "unix:" + socket}, options_);
  ASSERT_TRUE(WaitFor([&] { return access(socket.c_str(), F_OK) == 0; })) << daemon.Output();
  options_.environment["XDG_RUNTIME_DIR"] = run;
  const auto status = [&] {
    return RunToEnd({RANKLOG_CLI, "status", "--check", "--state-dir", dir_.File("state")},
                    options_);
  };
  const std::string wrong =
      absl::StrCat("the daemon answers at unix:", socket,
                   ", but RANKLOG_ADDRESS names unix:", dir_.File("socket/d.sock"));
  ExpectAdvice(Doctor(), {wrong});
  ExpectAdvice(status(), {wrong});
  options_.environment["RANKLOG_ADDRESS"] = "unix:/" + std::string(120, 'x');
  ExpectAdvice(status(), {"RANKLOG_ADDRESS: the path of the socket has 121 bytes, and the kernel "
                          "accepts at most 107"});
  ExpectAdvice(RunToEnd({RANKLOG_CLI, "runs"}, options_), {"RANKLOG_ADDRESS: the path of the"});
}

TEST_F(DoctorTest, SmallContainerShmIsReported) {
  SKIP_WITHOUT(HasContainers(), "namespaces");
  ExpectAdvice(Doctor(InContainer()), {"64.0 MiB free: 8 ranks get a ring of 1.0 MiB each",
                                       "--shm-size=1g", "medium Memory"});
  const Finished one = Doctor(InContainer(), {"--ranks", "1"});
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("1 rank gets a ring of 8.0 MiB"));
}

TEST_F(DoctorTest, LowLimitsAreNamed) {
  ExpectAdvice(Doctor({"prlimit", "--nofile=128:128"}),
               {"open files 128,", "a daemon needs 208 open files for 8 ranks", "LimitNOFILE="});
  ExpectAdvice(Doctor({"prlimit", "--fsize=1048576:1048576"}),
               {"size of files 1.0 MiB", "ulimit -f unlimited"});
  EXPECT_THAT(Doctor({"prlimit", "--memlock=65536:65536"}).output,
              HasSubstr("locked memory 64.0 KiB"));
}

TEST_F(DoctorTest, LowDiskSpaceIsReported) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk disk(dir_.File("state"), "64m");
  ASSERT_TRUE(disk.mounted());
  ExpectAdvice(Doctor(), {"64.0 MiB free of 64.0 MiB", "free space on it"});
}

TEST_F(DoctorTest, KeyIsMaskedAndVerified) {
  const std::string key = std::string(36, 'k') + "wxyz";
  FakeWandb wandb;
  options_.environment["WANDB_API_KEY"] = key;
  options_.environment["WANDB_BASE_URL"] = wandb.url();
  const Finished sound = Doctor();
  EXPECT_EQ(sound.code, 0) << sound.output;
  EXPECT_THAT(sound.output,
              AllOf(HasSubstr(wandb.url() + ", key ...wxyz, answers"), Not(HasSubstr("kkkk"))));
  wandb.RequireKey(std::string(40, 'o'));
  const Finished refused = Doctor();
  ExpectAdvice(refused, {"the server refused the key ...wxyz; run `ranklog login --base-url " +
                         wandb.url() + "` with a valid key"});
  EXPECT_THAT(refused.output, Not(HasSubstr("kkkk")));
}

TEST_F(DoctorTest, KeyReadableByOthersIsReported) {
  const DeadPort nobody(DeadPort::kRefuses);
  options_.environment["WANDB_BASE_URL"] = nobody.url();
  const std::string file = dir_.File("state/credentials");
  std::ofstream(file) << "machine 127.0.0.1 login api password " << std::string(40, 'k') << "\n";
  chmod(file.c_str(), 0644);
  ExpectAdvice(Doctor(), {file, "chmod 600"});
}

// A tracker that is away is a state, not an error. If there is a proxy, it may be the cause.
TEST_F(DoctorTest, UnreachableServerIsReportedWithProxy) {
  const DeadPort nobody(DeadPort::kRefuses);
  const DeadPort proxy(DeadPort::kRefuses);
  options_.environment["WANDB_API_KEY"] = std::string(40, 'k');
  options_.environment["WANDB_BASE_URL"] = nobody.url();
  const Finished away = Doctor();
  EXPECT_EQ(away.code, 0) << away.output;
  EXPECT_THAT(away.output, HasSubstr("not reachable: "));
  options_.environment["http_proxy"] = absl::StrCat("http://me:secret@127.0.0.1:", proxy.number());
  const Finished by_proxy = Doctor();
  ExpectAdvice(by_proxy,
               {"through the proxy $http_proxy = http://***@127.0.0.1:",
                "env -u http_proxy ranklog --state-dir " + dir_.File("state") + " doctor"});
  EXPECT_THAT(by_proxy.output, Not(HasSubstr("secret")));
}

// Its own cgroup, if this kernel or container allows it.
class OwnCgroup {
 public:
  // Each name is a subdirectory of the one before.
  explicit OwnCgroup(const std::vector<std::string>& names) {
    for (const char* hierarchy : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      if (!std::filesystem::exists(absl::StrCat(hierarchy, "/cgroup.procs"))) continue;
      std::filesystem::path dir = absl::StrCat(hierarchy, "/ranklog_doctor_", getpid());
      for (const std::string& name : names) dir /= name;
      std::error_code error;
      if (std::filesystem::create_directories(dir, error)) path_ = dir;
      if (!path_.empty()) break;
    }
  }
  ~OwnCgroup() {
    for (std::filesystem::path dir = path_;
         !dir.empty() && dir.filename() != "cgroup" && dir.filename() != "memory";
         dir = dir.parent_path()) {
      WaitFor([&] { return rmdir(dir.c_str()) == 0; }, absl::Seconds(5));
    }
  }
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  const std::string& path() const { return path_; }  // empty if it could not be made

 private:
  std::string path_;
};

class DaemonInACgroupTest : public DoctorTest {
 protected:
  // Returns doctor's output about a daemon in this cgroup.
  Finished DoctorOfDaemonIn(const OwnCgroup& cgroup) {
    const ChildProcess daemon({"/bin/sh", "-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"",
                               cgroup.path(), RANKLOGD, "--state-dir", dir_.File("state")},
                              options_);
    EXPECT_TRUE(WaitFor([&] { return access(dir_.File("socket/d.sock").c_str(), F_OK) == 0; }))
        << daemon.Output();
    return Doctor();
  }
};

// Its messages are in the journal, not in the log file of a daemon that a rank started earlier.
TEST_F(DaemonInACgroupTest, UnitDaemonGetsSystemdAdvice) {
  options_.environment["INVOCATION_ID"] = "1";
  options_.environment["NOTIFY_SOCKET"] = dir_.File("notify");
  std::ofstream(dir_.File("socket/ranklogd.log")) << "of an older daemon\n";
  const std::pair<std::vector<std::string>, std::vector<std::string>> units[] = {
      {{"system-ranklogd.slice", "ranklogd@1000.service"},
       {"journalctl -u ranklogd@1000.service", "`systemctl stop ranklogd@1000.socket`"}},
      {{"user@1000.service", "ranklogd.service"},
       {"journalctl --user -u ranklogd.service",
        "`systemctl --user stop ranklogd.socket ranklogd.service`"}}};
  for (const auto& [names, commands] : units) {
    const OwnCgroup unit(names);
    SKIP_WITHOUT(!unit.path().empty(), "cgroups of this kernel or container");
    const ChildProcess daemon({"/bin/sh", "-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"",
                               unit.path(), RANKLOGD, "--state-dir", dir_.File("state")},
                              options_);
    ASSERT_TRUE(WaitFor([&] { return access(dir_.File("socket/d.sock").c_str(), F_OK) == 0; }))
        << daemon.Output();
    const Finished log = RunToEnd({RANKLOG_CLI, "daemon-log"}, options_);
    ExpectAdvice(log, {commands[0]});
    EXPECT_THAT(log.output, Not(HasSubstr("older")));
    const Finished stop =
        RunToEnd({RANKLOG_CLI, "stop", "--state-dir", dir_.File("state")}, options_);
    EXPECT_EQ(stop.code, 0);
    EXPECT_THAT(stop.output, HasSubstr(commands[1]));
  }
}

// The cgroups as made by Slurm's plugin, version 1 or 2.
TEST_F(DaemonInACgroupTest, JobStepDaemonIsReported) {
  const OwnCgroup step({"job_1", "step_0"});
  SKIP_WITHOUT(!step.path().empty(), "cgroups of this kernel or container");
  ExpectAdvice(DoctorOfDaemonIn(step),
               {"the daemon is part of a job's step", "let the prolog start it"});
}

TEST_F(DaemonInACgroupTest, UserManagerDaemonNeedsLinger) {
  const passwd* const user = getpwuid(geteuid());
  const OwnCgroup manager({"user@1000.service", "app.slice"});
  SKIP_WITHOUT(!manager.path().empty() && user != nullptr, "cgroups of this kernel or container");
  const Finished said = DoctorOfDaemonIn(manager);
  EXPECT_THAT(said.output,
              HasSubstr(absl::StrCat("the daemon belongs to the user manager of ", user->pw_name)));
  if (access(absl::StrCat("/var/lib/systemd/linger/", user->pw_name).c_str(), F_OK) == 0) {
    EXPECT_EQ(said.code, 0) << said.output;
  } else {
    ExpectAdvice(said, {absl::StrCat("it ends at your last logout, and does not start at boot; "
                                     "run: loginctl enable-linger ",
                                     user->pw_name)});
  }
}

TEST_F(CliTest, DoctorReportsClockThatIsBehind) {
  ASSERT_OK(store_->Begin());
  const int64_t later = absl::ToUnixMicros(absl::Now() + absl::Hours(30));
  Attach("tomorrow", 0, "tomorrow", "local", later);
  ASSERT_OK(store_->Commit());
  EXPECT_THAT(Ranklog({"doctor"}).output, AllOf(HasSubstr("a run in this store starts 1 d 0"),
                                                HasSubstr("timedatectl set-ntp true")));
}

}  // namespace
}  // namespace ranklog::testing
