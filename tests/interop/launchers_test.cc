// ranklog-train under the launchers that people use: the real torchrun and the real Slurm.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/interop/torchrun.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/temp_dir.h"

namespace ranklog {
namespace {

using ::ranklog::testing::DeadPort;
using ::ranklog::testing::Finished;
using ::ranklog::testing::InPath;
using ::ranklog::testing::Node;
using ::ranklog::testing::RunToEnd;
using ::ranklog::testing::Standalone;
using ::ranklog::testing::TempDir;
using ::ranklog::testing::Torchrun;
using ::ranklog::testing::WaitFor;
using ::testing::ElementsAre;

// Runs a short training whose log goes to the node's daemon.
std::vector<std::string> Train(const Node& node, std::vector<std::string> launcher) {
  launcher.insert(launcher.begin(),
                  {"env", "RANKLOG_ADDRESS=" + node.address(), "RANKLOG_START_DAEMON=false",
                   "RANKLOG_SPOOL_DIR=" + node.spool_dir(), "OMP_NUM_THREADS=1"});
  for (const char* argument : {RANKLOG_TRAIN, "--model", "tiny", "--steps", "3", "--log-every", "1",
                               "--val-every", "3", "--batch-size", "2", "--seq-len", "32"}) {
    launcher.push_back(argument);
  }
  return launcher;
}

std::vector<model::Run> Runs(const Node& node) {
  return node.Reader()->Runs().value_or(std::vector<model::Run>());
}

bool HaveFinished(const Node& node, size_t runs) {
  const std::vector<model::Run> stored = Runs(node);
  return stored.size() == runs && std::all_of(stored.begin(), stored.end(), [](const auto& run) {
           return run.state == model::RunState::kFinished;
         });
}

// Returns the ranks whose rows the store has: all rows of three steps and a validation.
std::set<uint32_t> Ranks(const Node& node) {
  std::set<uint32_t> ranks;
  for (const model::Run& run : Runs(node)) {
    absl::StatusOr<std::vector<model::Stream>> streams = node.Reader()->Streams(run.id);
    EXPECT_TRUE(streams.ok());
    for (const model::Stream& stream : *streams) {
      EXPECT_EQ(stream.durable_seq, 4u) << "rank " << stream.key.rank;
      EXPECT_TRUE(ranks.insert(stream.key.rank).second) << "twice: rank " << stream.key.rank;
    }
  }
  return ranks;
}

TEST(LaunchersTest, TorchrunRanksShareRun) {  // S5
  SKIP_WITHOUT(InPath("torchrun"), "torchrun (package python3-torch)");
  Node node;
  node.Start();
  TempDir logs;
  std::vector<std::string> arguments = Standalone();
  arguments.insert(arguments.end(), {"--nproc_per_node", "2"});
  const Finished run =
      RunToEnd(Train(node, Torchrun(logs.path(), arguments)), {}, absl::Seconds(120));
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(WaitFor([&] { return HaveFinished(node, 1); }));
  EXPECT_THAT(Ranks(node), ElementsAre(0, 1));
}

class SlurmLauncherTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (started_) Slurm({"stop"});
  }
  Finished Slurm(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {SLURM_TWO_NODES, "--dir", dir_.path()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunToEnd(command, {}, absl::Seconds(120));
  }
  TempDir dir_;
  bool started_ = false;
};

TEST_F(SlurmLauncherTest, FourRanksOnTwoNodes) {  // S5
  SKIP_WITHOUT(InPath("srun") && access("/usr/sbin/slurmd", X_OK) == 0 && geteuid() == 0,
               "Slurm (slurmctld, slurmd, munge), and root to run it");
  Node node;
  node.Start();
  started_ = true;
  ASSERT_EQ(Slurm({"start"}).code, 0);
  const int port = DeadPort(DeadPort::kRefuses).number();  // a free port, released at once
  // Both nodes of Slurm are this machine, so one daemon serves all ranks.
  std::vector<std::string> command =
      Train(node, {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port), "srun", "-N2",
                   "-n4", "--ntasks-per-node=2"});
  command.insert(command.begin(), "exec");
  const Finished run = Slurm(command);
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(WaitFor([&] { return HaveFinished(node, 2); }));
  EXPECT_THAT(Ranks(node), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace ranklog
