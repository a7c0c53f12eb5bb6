// Tests the prolog of deploy/slurm in a real Slurm. The job's user has a daemon that outlives the
// job, and no problem of that daemon affects the job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/node.h"
#include "tests/interop/slurm_cluster.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kSlurmRows = 50;
constexpr char kBothIdle[] = "n1 idle\nn2 idle\n";

class SlurmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(SlurmCluster::Installed(), "Slurm (slurmctld, slurmd, munge), and root to run it");
    SKIP_WITHOUT(SlurmCluster::HasCgroups(), "the cgroups freezer and memory, of version 1");
    cluster_.AddProgram(LOGGING_RANK);
  }
  // Settings of ranks that must find the prolog's daemon.
  static std::map<std::string, std::string> Settings(const std::string& url) {
    std::map<std::string, std::string> settings = WandbAt(url);
    settings["RANKLOG_START_DAEMON"] = "false";
    settings["RANKLOG_LOG_STRATEGY"] = "all";
    return settings;
  }
  static bool AreComplete(const std::map<std::string, FakeWandb::Run>& runs, size_t number) {
    size_t complete = 0;
    for (const auto& [id, run] : runs) complete += run.complete && run.history.size() == kSlurmRows;
    return complete == number;
  }

  SlurmCluster cluster_;
};

TEST_F(SlurmTest, DeliversAfterTheJob) {  // S5, S36
  cluster_.Start({.private_tmp = true});
  const int port = FakeWandb().port();  // no server answers there, for now
  const Finished job =
      cluster_.Run({"srun", "-N2", "-n2", "logging_rank", std::to_string(kSlurmRows)},
                   Settings("http://127.0.0.1:" + std::to_string(port)));
  ASSERT_EQ(job.code, 0) << job.output;
  // The node is free while its rows wait: no epilog and no process of the job is left.
  EXPECT_TRUE(WaitFor([&] { return cluster_.NodeStates() == kBothIdle; }));
  for (const char* node : {"n1", "n2"}) {
    EXPECT_THAT(cluster_.On(node, {cluster_.File("bin/ranklog"), "status"}).output,
                HasSubstr("started by slurm"));
    const json runs = cluster_.RunsOn(node);
    ASSERT_THAT(runs, SizeIs(1)) << runs;
    EXPECT_EQ(runs[0]["destinations"][0]["pending_rows"], kSlurmRows) << runs;
  }
  FakeWandb wandb(port);
  EXPECT_TRUE(
      wandb.WaitFor([](const auto& runs) { return AreComplete(runs, 2); }, absl::Seconds(60)));
  EXPECT_EQ(cluster_.NodeStates(), kBothIdle);
  EXPECT_THAT(cluster_.Logs(), AllOf(Not(HasSubstr("Kill task failed")), Not(HasSubstr("drain"))));
}

// For a node that is wiped after the job.
TEST_F(SlurmTest, EpilogWaitsForDeliveryIfConfigured) {
  cluster_.Start({});
  FakeWandb wandb;
  const std::string conf = "/etc/ranklog/slurm.conf";
  cluster_.On("n1", {"sh", "-c", "echo drain=30 >>" + conf});
  const Finished job =
      cluster_.Run({"srun", "-N1", "-w", "n1", "logging_rank", "50"}, Settings(wandb.url()));
  ASSERT_EQ(job.code, 0) << job.output;
  EXPECT_TRUE(WaitFor([&] { return cluster_.NodeStates() == kBothIdle; }));
  EXPECT_TRUE(AreComplete(wandb.runs(), 1)) << "the node is free before its rows are delivered";
}

TEST_F(SlurmTest, EpilogIgnoresOtherRunningJobs) {
  cluster_.Start({});
  FakeWandb wandb;
  cluster_.On("n1", {"sh", "-c", "echo drain=100 >>/etc/ranklog/slurm.conf"});
  const auto state = [&](const std::string& job) { return cluster_.JobField(job, "JobState"); };
  const auto submit = [&](const std::string& rank) {
    return cluster_.Submit({"-N1", "-n1", "-w", "n1", "--wrap", "srun logging_rank " + rank},
                           Settings(wandb.url()));
  };
  const std::string other = submit("1000000 0 1000");
  ASSERT_TRUE(wandb.WaitFor([](const auto& runs) { return runs.size() == 1; }, absl::Seconds(60)));
  const std::string job = submit(std::to_string(kSlurmRows));
  EXPECT_TRUE(WaitFor([&] { return state(job) == "COMPLETED"; })) << state(job);
  EXPECT_TRUE(AreComplete(wandb.runs(), 1));
  EXPECT_EQ(state(other), "RUNNING");
  cluster_.Run({"scancel", other});
  EXPECT_TRUE(WaitFor([&] { return cluster_.NodeStates() == kBothIdle; }));
}

// For example, the kernel kills the daemon for lack of memory. The rank starts another one, which
// ends with the job.
class SlurmKilledDaemonTest : public SlurmTest,
                              public ::testing::WithParamInterface<const char*> {};

TEST_P(SlurmKilledDaemonTest, RankContinuesInSameStore) {
  cluster_.Start({});
  const std::string state = GetParam();
  cluster_.On("n1", {"sh", "-c", "echo state=" + state + " >>/etc/ranklog/slurm.conf"});
  const int port = FakeWandb().port();  // no server answers there, for now
  const std::string home = cluster_.File("home");
  std::map<std::string, std::string> settings = WandbAt(absl::StrCat("http://127.0.0.1:", port));
  settings.merge(std::map<std::string, std::string>{
      {"HOME", home}, {"RANKLOG_RUN_ID", "job"}, {"RANKLOG_FINISH_TIMEOUT_MS", "60000"}});
  const std::string stop = cluster_.File("stop");
  const std::string job = cluster_.Submit(
      {"-N1", "-w", "n1", "--wrap", "srun logging_rank 1000000 0 1000 " + stop}, settings);
  const auto by_user = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"env", "HOME=" + home, "WANDB_API_KEY=" + settings["WANDB_API_KEY"],
                               cluster_.File("bin/ranklog")});
    return cluster_.On("n1", args);
  };
  const auto rows = [&] {
    const Finished runs = by_user({"runs", "--json"});
    const json all = json::parse(runs.output, nullptr, /*allow_exceptions=*/false);
    return all.is_array() && !all.empty() ? all[0].value("rows", 0) : 0;
  };
  ASSERT_TRUE(WaitFor([&] { return rows() > 100; })) << by_user({"status"}).output;
  const Finished killed =
      cluster_.On("n1", {"sh", "-c", "kill -KILL $(tr -cd 0-9 <" + state + "/0/lock)"});
  ASSERT_EQ(killed.code, 0) << killed.output;
  const int before = rows();
  EXPECT_TRUE(WaitFor([&] { return rows() > before + 100; }));
  EXPECT_TRUE(
      WaitFor([&] { return absl::StrContains(by_user({"status"}).output, "started by rank"); }));
  std::ofstream(stop).flush();
  ASSERT_TRUE(WaitFor([&] { return cluster_.JobField(job, "JobState") == "COMPLETED"; }));
  const std::string output = FileContent(cluster_.File(job + ".out"));
  int logged = 0;
  const size_t last_line = output.rfind("logged ");
  ASSERT_NE(last_line, std::string::npos) << output;
  ASSERT_EQ(sscanf(output.c_str() + last_line, "logged %d, durable", &logged), 1) << output;

  const std::string key = "machine 127.0.0.1:" + std::to_string(port) + " login user password " +
                          settings["WANDB_API_KEY"];
  // The rank's key is gone with its daemon.
  cluster_.On("n1", {"sh", "-c", "umask 077; echo '" + key + "' >" + state + "/0/credentials"});
  FakeWandb wandb(port);
  // The prolog of this job continues the delivery.
  EXPECT_EQ(cluster_.Run({"srun", "-N1", "-w", "n1", "true"}).code, 0);
  const auto complete = [](const auto& runs) {
    return runs.count("job") && runs.at("job").complete;
  };
  ASSERT_TRUE(wandb.WaitFor(complete, absl::Seconds(60))) << by_user({"doctor"}).output;
  const FakeWandb::Run run = wandb.run("job");
  ASSERT_THAT(run.history, SizeIs(logged));
  for (int step = 0; step < logged; ++step) {
    EXPECT_EQ(json::parse(run.history[step])["loss"], step);
  }
  const Finished verified = by_user({"verify", "job"});
  EXPECT_EQ(verified.code, 0) << verified.output;
  EXPECT_FALSE(std::filesystem::exists(home)) << "there are two stores";
}

INSTANTIATE_TEST_SUITE_P(States, SlurmKilledDaemonTest,
                         ::testing::Values("/var/lib/ranklog", "/var/lib/site/ranklog"));

class SlurmBadDaemonTest : public SlurmTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SlurmBadDaemonTest, DoesNotDrainTheNode) {
  cluster_.Start({.ranklogd = GetParam()});
  const absl::Time before = absl::Now();
  const Finished job = cluster_.Run({"srun", "-N2", "-n2", "true"});
  EXPECT_EQ(job.code, 0) << job.output;
  EXPECT_LT(absl::Now() - before, absl::Seconds(20));
  EXPECT_TRUE(WaitFor([&] { return cluster_.NodeStates() == kBothIdle; })) << cluster_.NodeStates();
}

INSTANTIATE_TEST_SUITE_P(Daemons, SlurmBadDaemonTest,
                         ::testing::Values("#!/bin/sh\nexit 1\n", "#!/bin/sh\nexec sleep 100\n",
                                           "-"));

}  // namespace
}  // namespace ranklog::testing
