// The real launchers place ranks in cycles: ranks 0 and 2 on one node, 1 and 3 on the other. Each
// node has its own daemon, as on a cluster. No program knows that both nodes are one machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kLayoutRows = 20;

class LayoutsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (Node& node : nodes_) node.Start();
    // The first rank of each node starts last.
    WriteScript(rank_, R"(
node=${SLURMD_NODENAME:-$(hostname)}
eval "export RANKLOG_ADDRESS=\$ADDRESS_$node RANKLOG_SPOOL_DIR=\$SPOOL_$node"
[ "${SLURM_LOCALID:-$OMPI_COMM_WORLD_LOCAL_RANK}" != 0 ] || sleep 1
exec )" + std::string(LOGGING_RANK) +
                           " 20\n");
  }
  static void WriteScript(const std::string& path, const std::string& text) {
    std::ofstream(path) << "#!/bin/sh" << text;
    chmod(path.c_str(), 0755);
  }

  // Runs four ranks under `strategy`, with the launcher and its arguments.
  void RunJob(std::vector<std::string> launcher, const std::string& strategy) {
    ChildProcess::Options options;
    options.environment = {
        {"RANKLOG_RUN_ID", "job"},           {"RANKLOG_PROJECT", "test"},
        {"RANKLOG_START_DAEMON", "false"},   {"RANKLOG_LOG_STRATEGY", strategy},
        {"ADDRESS_n1", nodes_[0].address()}, {"ADDRESS_n2", nodes_[1].address()},
        {"SPOOL_n1", nodes_[0].spool_dir()}, {"SPOOL_n2", nodes_[1].spool_dir()}};
    for (const auto& [name, value] : WandbAt(wandb_.url())) options.environment[name] = value;
    launcher.push_back(rank_);
    const Finished run = RunToEnd(launcher, options, absl::Seconds(60));
    ASSERT_EQ(run.code, 0) << run.output;
  }
  bool Complete(const std::vector<std::string>& run_ids) {
    return wandb_.WaitFor(
        [&](const std::map<std::string, FakeWandb::Run>& runs) {
          for (const std::string& id : run_ids) {
            if (runs.count(id) == 0 || !runs.at(id).complete) return false;
          }
          return true;
        },
        absl::Seconds(60));
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [id, run] : wandb_.runs()) names.push_back(id);
    return names;
  }
  // Checks the rows of rank `first`, with the statistics over it and rank `first` + 2.
  void ExpectRowsOfNode(const std::string& run_id, int first) {
    const FakeWandb::Run run = wandb_.run(run_id);
    ASSERT_THAT(run.history, SizeIs(kLayoutRows));
    for (int step = 0; step < kLayoutRows; ++step) {
      const json row = ParseExtendedJson(run.history[step]);
      EXPECT_EQ(row["loss"], 1000 * first + step);
      EXPECT_EQ(row["rank_max/loss"], 1000 * (first + 2) + step);
    }
    const json config = ParseExtendedJson(run.config);
    EXPECT_EQ(config["ranklog"]["value"]["statistics_over"]["ranks"], json({first, first + 2}));
  }
  void ExpectMain(const std::vector<std::string>& launcher) {
    RunJob(launcher, "main");
    ASSERT_TRUE(Complete({"job"}));
    EXPECT_THAT(wandb_.errors(), IsEmpty());
    EXPECT_THAT(Names(), ElementsAre("job"));
    ExpectRowsOfNode("job", 0);
    ASSERT_TRUE(WaitFor([&] { return nodes_[1].RunHasEnded("job-1"); }));
    EXPECT_EQ(nodes_[1].GetRun("job-1").rows, uint64_t{kLayoutRows});
    EXPECT_THAT(*nodes_[1].Reader()->Runs(), SizeIs(1));
  }
  void ExpectNode(const std::vector<std::string>& launcher) {
    RunJob(launcher, "node");
    ASSERT_TRUE(Complete({"job-0", "job-1"}));
    EXPECT_THAT(wandb_.errors(), IsEmpty());
    EXPECT_THAT(Names(), ElementsAre("job-0", "job-1"));
    ExpectRowsOfNode("job-0", 0);
    ExpectRowsOfNode("job-1", 1);
    EXPECT_EQ(wandb_.run("job-1").variables["displayName"], "rank-1");
  }

  FakeWandb wandb_;
  Node nodes_[2];
  TempDir dir_;
  const std::string rank_ = dir_.File("rank.sh");
};

class SlurmLayoutsTest : public LayoutsTest {
 protected:
  void TearDown() override {
    if (started_) RunToEnd({SLURM_TWO_NODES, "--dir", slurm_.path(), "stop"});
  }
  std::vector<std::string> Srun() {
    started_ = true;
    const Finished start =
        RunToEnd({SLURM_TWO_NODES, "--dir", slurm_.path(), "start"}, {}, absl::Seconds(120));
    EXPECT_EQ(start.code, 0) << start.output;
    return {SLURM_TWO_NODES, "--dir", slurm_.path(),         "exec", "srun",
            "-N2",           "-n4",   "--ntasks-per-node=2", "-m",   "cyclic"};
  }
  static bool HaveSlurm() {
    return InPath("srun") && access("/usr/sbin/slurmd", X_OK) == 0 && geteuid() == 0;
  }
  TempDir slurm_;
  bool started_ = false;
};

TEST_F(SlurmLayoutsTest, CyclicRanksShareMainRun) {  // S2, S5
  SKIP_WITHOUT(HaveSlurm(), "Slurm (slurmctld, slurmd, munge), and root to run it");
  ExpectMain(Srun());
}

TEST_F(SlurmLayoutsTest, CyclicRanksShareNodeRuns) {  // S3, S5
  SKIP_WITHOUT(HaveSlurm(), "Slurm (slurmctld, slurmd, munge), and root to run it");
  ExpectNode(Srun());
}

class MpiLayoutsTest : public LayoutsTest {
 protected:
  // Two nodes with different host names, which mpirun reaches by a replacement of ssh.
  std::vector<std::string> Mpirun() {
    const std::string agent = dir_.File("ssh.sh");
    WriteScript(agent, R"(
host=$1
shift
exec unshare --uts sh -c "hostname $host; $*"
)");
    return {"mpirun",
            "--allow-run-as-root",
            "--host",
            "n1:2,n2:2",
            "-np",
            "4",
            "--map-by",
            "node",
            "--mca",
            "plm_rsh_agent",
            agent,
            "--mca",
            "oob_tcp_if_include",
            "lo"};
  }
  static bool HaveMpi() {
    return InPath("mpirun") && RunToEnd({"unshare", "--uts", "hostname", "n1"}).code == 0;
  }
};

TEST_F(MpiLayoutsTest, CyclicRanksShareMainRun) {  // S2, S5
  SKIP_WITHOUT(HaveMpi(), "Open MPI (openmpi-bin), and root to name two nodes");
  ExpectMain(Mpirun());
}

TEST_F(MpiLayoutsTest, CyclicRanksShareNodeRuns) {  // S3, S5
  SKIP_WITHOUT(HaveMpi(), "Open MPI (openmpi-bin), and root to name two nodes");
  ExpectNode(Mpirun());
}

}  // namespace
}  // namespace ranklog::testing
