// The units of deploy/systemd under a real systemd, booted in a container on an overlay of this
// machine's root.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/file_content.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Users of the container, one per test, so that their daemons are separate.
constexpr int kUser = 54321;
constexpr int kOtherUser = 54322;
constexpr int kIdleUser = 54323;
constexpr int kHangingUser = 54324;
constexpr int kStoppingUser = 54325;
constexpr int kRebootedUser = 54326;
constexpr int kOwnSystemdUser = 54327;
constexpr int kRestartedUser = 54328;

// Runs before the container boots: installs programs, units, users and settings. Arguments: BUILD,
// CMAKE, the files of a rank, ROOT.
constexpr char kPrepare[] = R"(
set -eu
build=$1 cmake=$2 key=$3 root=${!#}
cp "${@:4:$#-4}" "$root/usr/bin/"
DESTDIR=$root "$cmake" --install "$build" --prefix /usr --component systemd >/dev/null
for uid in $(seq 54321 54328); do
  echo "u$uid:x:$uid:$uid::/home/u$uid:/bin/sh" >>"$root/etc/passwd"
  echo "u$uid:*:20000::::::" >>"$root/etc/shadow"
  install -d -o $uid -g $uid -m 0700 "$root/home/u$uid"
done
systemctl --quiet --root="$root" enable ranklogd@54326.socket
systemctl --quiet --root="$root" --global enable ranklogd.socket
install -m 0600 -D "$key" "$root/etc/credstore/ranklogd.54326"
of_user() { install -d "$root/etc/systemd/system/ranklogd@$1.service.d"; printf '[Service]\n%s\n' "${@:2}" >"$root/etc/systemd/system/ranklogd@$1.service.d/test.conf"; }
run='/usr/bin/ranklogd --state-dir %S/ranklog/%i'
of_user 54323 ExecStart= "ExecStart=$run --idle-exit 1s"
of_user 54324 WatchdogSec=2 RestartSec=100ms
of_user 54325 ExecStart= "ExecStart=$run --drain 3s" WatchdogSec=2
)";

class SystemdTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<TempDir>();
    std::filesystem::create_directory(dir_->File("state"));
  }
  static void TearDownTestSuite() {
    booted_.reset();
    dir_.reset();
  }

  void SetUp() override {
    SKIP_WITHOUT(geteuid() == 0, "root, which boots a container");
    SKIP_WITHOUT(InPath("systemd-nspawn"), "systemd-nspawn (package systemd-container)");
    static const std::string why_not = Boot();
    SKIP_WITHOUT(why_not.empty(), why_not);
  }
  void TearDown() override {
    if (HasFailure() && booted_ != nullptr) {
      fprintf(stderr, "%s", Inside({"journalctl", "-b", "--no-pager"}).output.c_str());
    }
  }

  // The file with the key of kRebootedUser until the next boot.
  static std::string KeyFile() { return dir_->File("key"); }

  // Boots the container. Returns why it cannot; empty on success.
  static std::string Boot() {
    container_ = dir_->File(container_.empty() ? "first" : "second");
    std::filesystem::create_directory(container_);
    std::ofstream(KeyFile(), std::ios::app).flush();
    const std::string bind = dir_->File("state") + ":/var/lib/ranklog";
    std::vector<std::string> command = {SYSTEMD_CONTAINER, container_, "boot",
                                        "--bind",          bind,       "--"};
    for (const char* word : {"bash", "-c", kPrepare, "prepare", BUILD_DIR, CMAKE}) {
      command.push_back(word);
    }
    for (const std::string& file :
         {KeyFile(), std::string(RANKLOGD), std::string(RANKLOG_CLI), std::string(LOGGING_RANK)}) {
      command.push_back(file);
    }
    for (const auto& library : std::filesystem::directory_iterator(LIBRARIES)) {
      command.push_back(library.path());
    }
    ChildProcess::Options options;
    options.output = container_ + "/output";
    booted_ = std::make_unique<ChildProcess>(command, options);
    const Finished ready = RunToEnd({SYSTEMD_CONTAINER, container_, "ready"}, {}, absl::Minutes(2));
    if (ready.code == 0) return "";
    return absl::StrCat("a container: ", ready.output, booted_->Output(),
                        FileContent(container_ + "/console"));
  }
  // Like a power loss of the node, except for data that its kernel had not written.
  static void Crash() { booted_.reset(); }

  static std::vector<std::string> CommandInside(const std::vector<std::string>& command) {
    std::vector<std::string> all = {SYSTEMD_CONTAINER, container_, "exec"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  static Finished Inside(const std::vector<std::string>& command) {
    return RunToEnd(CommandInside(command));
  }
  // A command of a user without a session.
  static std::vector<std::string> CommandOf(int user, const std::vector<std::string>& command) {
    const std::string uid = absl::StrCat(user);
    std::vector<std::string> all = {
        "setpriv",        "--reuid", uid,  "--regid", uid,
        "--clear-groups", "env",     "-C", "/",       absl::StrCat("HOME=/home/u", uid)};
    all.insert(all.end(), command.begin(), command.end());
    return CommandInside(all);
  }
  static std::vector<std::string> RankOf(int user, const std::string& job,
                                         const std::vector<std::string>& variables,
                                         const std::vector<std::string>& args) {
    std::vector<std::string> command = {"LD_LIBRARY_PATH=/usr/bin",
                                        "RANKLOG_START_DAEMON=0",
                                        "RANKLOG_RUN_ID=" + job,
                                        "RANK=0",
                                        "LOCAL_RANK=0",
                                        "WORLD_SIZE=1",
                                        "LOCAL_WORLD_SIZE=1"};
    command.insert(command.end(), variables.begin(), variables.end());
    command.push_back("/usr/bin/logging_rank");
    command.insert(command.end(), args.begin(), args.end());
    return CommandOf(user, command);
  }
  // Runs a rank that logs rows to its node only, and waits until all are durable.
  static void Log(int user, const std::string& job, int rows,
                  const std::vector<std::string>& variables = {}) {
    std::vector<std::string> all = {"RANKLOG_DESTINATIONS=local"};
    all.insert(all.end(), variables.begin(), variables.end());
    const Finished rank = RunToEnd(RankOf(user, job, all, {absl::StrCat(rows)}));
    EXPECT_THAT(rank.output, HasSubstr(absl::StrCat("logged ", rows, ", durable")));
  }

  static std::string Service(int user) { return absl::StrCat("ranklogd@", user, ".service"); }
  static std::string Socket(int user) { return absl::StrCat("ranklogd@", user, ".socket"); }
  static std::string Property(const std::string& unit, const std::string& name) {
    const Finished shown = Inside({"systemctl", "show", "--property", name, "--value", unit});
    return shown.output.substr(0, shown.output.find('\n'));
  }
  static bool IsActive(const std::string& unit) {
    return Property(unit, "ActiveState") == "active";
  }
  static void StartSocket(int user) {
    const Finished started = Inside({"systemctl", "start", Socket(user)});
    EXPECT_EQ(started.code, 0) << started.output;
  }
  static std::string Journal(int user) {
    return Inside({"journalctl", "--no-pager", "--output=cat", "--unit", Service(user)}).output;
  }
  // Returns the rows of a run from a user's `ranklog`, which connects like a rank.
  static int RowsOf(int user, const std::string& job) {
    const Finished runs = RunToEnd(CommandOf(user, {"ranklog", "runs", "--json"}));
    const auto json = nlohmann::json::parse(runs.output, nullptr, /*allow_exceptions=*/false);
    for (const auto& run : json) {
      if (run.is_object() && run["run_id"] == job) return run["rows"];
    }
    return -1;
  }

  static inline std::unique_ptr<TempDir> dir_;
  static inline std::string container_;  // directory of the running container
  static inline std::unique_ptr<ChildProcess> booted_;
};

TEST_F(SystemdTest, FirstConnectionStartsTheDaemon) {  // S35
  StartSocket(kUser);
  EXPECT_TRUE(IsActive(Socket(kUser)));
  EXPECT_FALSE(IsActive(Service(kUser)));
  Log(kUser, "job", 1000);
  EXPECT_TRUE(IsActive(Service(kUser)));
  EXPECT_TRUE(WaitFor([] { return RowsOf(kUser, "job") == 1000; })) << RowsOf(kUser, "job");
  EXPECT_THAT(RunToEnd(CommandOf(kUser, {"ranklog", "status"})).output,
              HasSubstr("started by systemd"));
}

TEST_F(SystemdTest, AnotherUserIsRefused) {  // S35
  StartSocket(kUser);
  const std::string address = absl::StrCat("unix:/run/ranklog/", kUser, "/ranklogd.sock");
  const Finished rank = RunToEnd(RankOf(
      kOtherUser, "theirs",
      {"RANKLOG_DESTINATIONS=local", "RANKLOG_ADDRESS=" + address, "RANKLOG_FINISH_TIMEOUT_MS=100"},
      {"10"}));
  EXPECT_THAT(rank.output, HasSubstr("logged 10, spooled"));
  EXPECT_EQ(RowsOf(kUser, "theirs"), -1);
  EXPECT_NE(RunToEnd(CommandOf(kOtherUser, {"ls", absl::StrCat("/run/ranklog/", kUser)})).code, 0);
  EXPECT_NE(RunToEnd(CommandOf(kOtherUser, {"ls", absl::StrCat("/var/lib/ranklog/", kUser)})).code,
            0);
}

TEST_F(SystemdTest, IdleDaemonEndsAndComesBack) {  // S35
  StartSocket(kIdleUser);
  Log(kIdleUser, "first", 10);
  ASSERT_TRUE(WaitFor([] { return Property(Service(kIdleUser), "ActiveState") == "inactive"; }));
  EXPECT_TRUE(IsActive(Socket(kIdleUser)));
  Log(kIdleUser, "second", 10);
  EXPECT_EQ(RowsOf(kIdleUser, "first"), 10);
  EXPECT_TRUE(WaitFor([] { return RowsOf(kIdleUser, "second") == 10; }));
}

TEST_F(SystemdTest, WatchdogRestartsADaemonThatHangs) {  // S35
  StartSocket(kHangingUser);
  ChildProcess rank(RankOf(kHangingUser, "job", {"RANKLOG_DESTINATIONS=local"},
                           {"1000000", "0", "1000", "/tmp/stop"}));
  ASSERT_TRUE(WaitFor([] { return RowsOf(kHangingUser, "job") > 100; }));
  const std::string pid = Property(Service(kHangingUser), "MainPID");
  EXPECT_EQ(Inside({"kill", "-STOP", pid}).code, 0);
  ASSERT_TRUE(WaitFor([] { return Property(Service(kHangingUser), "NRestarts") != "0"; }));
  ASSERT_TRUE(WaitFor([] { return IsActive(Service(kHangingUser)); }));
  EXPECT_NE(Property(Service(kHangingUser), "MainPID"), pid);
  EXPECT_THAT(Journal(kHangingUser), HasSubstr("Watchdog timeout"));
  const int before = RowsOf(kHangingUser, "job");
  ASSERT_TRUE(WaitFor([=] { return RowsOf(kHangingUser, "job") > before + 100; }));
  EXPECT_EQ(Inside({"touch", "/tmp/stop"}).code, 0);
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  int logged = 0;
  ASSERT_EQ(sscanf(strstr(rank.Output().c_str(), "logged"), "logged %d, durable", &logged), 1)
      << rank.Output();
  EXPECT_TRUE(WaitFor([=] { return RowsOf(kHangingUser, "job") == logged; })) << logged;
}

// Its drain takes longer than the watchdog's interval, which has then expired.
TEST_F(SystemdTest, DrainOnStopOutlastsWatchdogInterval) {
  StartSocket(kStoppingUser);
  const DeadPort tracker(DeadPort::kRefuses);
  const Finished rank = RunToEnd(RankOf(
      kStoppingUser, "job",
      {"WANDB_BASE_URL=" + tracker.url(), "WANDB_API_KEY=" + std::string(40, 'k')}, {"100"}));
  EXPECT_THAT(rank.output, HasSubstr("logged 100, durable"));
  const absl::Time start = SteadyNow();
  EXPECT_EQ(Inside({"systemctl", "stop", Socket(kStoppingUser)}).code, 0);
  EXPECT_GE(SteadyNow() - start, absl::Seconds(3));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(10));
  EXPECT_EQ(Property(Service(kStoppingUser), "Result"), "success");
  EXPECT_THAT(Journal(kStoppingUser),
              HasSubstr("not all rows are delivered; the store keeps the rest"));
  EXPECT_FALSE(IsActive(Socket(kStoppingUser)));
  EXPECT_THAT(Inside({"journalctl", "--priority=warning", "--unit", Service(kStoppingUser)}).output,
              AllOf(HasSubstr("run job: wandb:"), Not(HasSubstr("stopped"))));
}

// A rank that continues meanwhile starts a daemon itself. This daemon must not use its own store,
// and must end when systemd listens again.
TEST_F(SystemdTest, RestartKeepsRunInOneStore) {
  const std::string key(40, 'k');
  FakeWandb wandb;
  StartSocket(kRestartedUser);
  ChildProcess rank(RankOf(kRestartedUser, "job",
                           {"RANKLOG_START_DAEMON=1", "RANKLOG_FINISH_TIMEOUT_MS=60000",
                            "WANDB_BASE_URL=" + wandb.url(), "WANDB_API_KEY=" + key},
                           {"1000000", "0", "1000", "/tmp/stop-restarted"}));
  const auto daemon = [] {  // the daemon that listens; this does not start one
    const Finished status = RunToEnd(
        CommandOf(kRestartedUser, {"ranklog", "status", "--state-dir",
                                   absl::StrCat("/var/lib/ranklog/", kRestartedUser), "--json"}));
    const auto json = nlohmann::json::parse(status.output, nullptr, /*allow_exceptions=*/false);
    return json.is_object() ? json.value("daemon", nlohmann::json::object())
                            : nlohmann::json::object();
  };
  ASSERT_TRUE(WaitFor([] { return RowsOf(kRestartedUser, "job") > 100; }));
  EXPECT_EQ(Inside({"systemctl", "stop", Socket(kRestartedUser)}).code, 0);
  ASSERT_TRUE(WaitFor([&] { return daemon().value("started_by", "") == "rank"; })) << daemon();
  const int before = RowsOf(kRestartedUser, "job");
  EXPECT_TRUE(WaitFor([=] { return RowsOf(kRestartedUser, "job") > before + 100; }));
  const std::string pid = absl::StrCat(daemon().value("pid", 0));

  StartSocket(kRestartedUser);
  EXPECT_TRUE(WaitFor([&] { return Inside({"test", "-e", "/proc/" + pid}).code != 0; }));
  EXPECT_TRUE(WaitFor([] { return IsActive(Service(kRestartedUser)); }));
  ASSERT_TRUE(WaitFor([&] { return daemon().value("started_by", "") == "systemd"; })) << daemon();
  const int again = RowsOf(kRestartedUser, "job");
  EXPECT_TRUE(WaitFor([=] { return RowsOf(kRestartedUser, "job") > again + 100; }));
  EXPECT_EQ(Inside({"touch", "/tmp/stop-restarted"}).code, 0);
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  int logged = 0;
  ASSERT_EQ(sscanf(strstr(rank.Output().c_str(), "logged"), "logged %d, durable", &logged), 1)
      << rank.Output();
  ASSERT_TRUE(wandb.WaitForEnd("job"));
  const FakeWandb::Run run = wandb.run("job");
  ASSERT_THAT(run.history, SizeIs(logged));
  for (int step = 0; step < logged; ++step) {
    EXPECT_EQ(nlohmann::json::parse(run.history[step])["loss"], step);
  }
  const Finished verified =
      RunToEnd(CommandOf(kRestartedUser, {"WANDB_API_KEY=" + key, "ranklog", "verify", "job"}));
  EXPECT_EQ(verified.code, 0) << verified.output;
  const std::string home = absl::StrCat("/home/u", kRestartedUser, "/.local/state/ranklog");
  EXPECT_NE(Inside({"test", "-e", home}).code, 0) << "there are two stores";
}

TEST_F(SystemdTest, UserUnitRunsItsOwnDaemon) {  // S35
  const std::string manager = absl::StrCat("user@", kOwnSystemdUser, ".service");
  ASSERT_EQ(Inside({"systemctl", "start", manager}).code, 0);
  const std::string runtime = absl::StrCat("XDG_RUNTIME_DIR=/run/user/", kOwnSystemdUser);
  Log(kOwnSystemdUser, "job", 100, {runtime});
  EXPECT_THAT(RunToEnd(CommandOf(kOwnSystemdUser,
                                 {runtime, "systemctl", "--user", "status", "ranklogd.service"}))
                  .output,
              HasSubstr("active (running)"));
  const std::string store =
      absl::StrCat("/home/u", kOwnSystemdUser, "/.local/state/ranklog/ranklog.db");
  EXPECT_EQ(Inside({"test", "-f", store}).code, 0);
}

// The rank's key is gone by then, and nobody logs in. The daemon uses the key that the
// administrator gave it.
TEST_F(SystemdTest, DeliversAfterAReboot) {
  const std::string key(40, 'a');
  int port = 0;
  {
    const DeadPort tracker(DeadPort::kRefuses);
    port = tracker.number();
    const Finished rank = RunToEnd(RankOf(
        kRebootedUser, "job",
        {"WANDB_BASE_URL=" + tracker.url(), "WANDB_API_KEY=" + std::string(40, 'k')}, {"100"}));
    EXPECT_THAT(rank.output, HasSubstr("logged 100, durable"));
    Crash();
  }
  FakeWandb wandb(port);
  wandb.RequireKey(key);
  std::ofstream(KeyFile()) << "machine 127.0.0.1:" << port << " login user password " << key
                           << "\n";
  ASSERT_EQ(Boot(), "");
  ASSERT_TRUE(wandb.WaitForEnd("job", absl::Seconds(30)));
  EXPECT_THAT(wandb.run("job").history, SizeIs(100));
}

}  // namespace
}  // namespace ranklog::testing
