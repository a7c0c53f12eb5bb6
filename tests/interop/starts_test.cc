// The same command twice, and restarts, under the real torchrun.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/integration/node.h"
#include "tests/interop/torchrun.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::SizeIs;

class TorchrunStartsTest : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT(InPath("torchrun"), "torchrun (package python3-torch)"); }

  // An agent of torchrun on this node, whose ranks log 20 rows each.
  ChildProcess Agent(const Node& node, const std::vector<std::string>& arguments,
                     const std::string& rank) const {
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node.address()},
                           {"RANKLOG_SPOOL_DIR", node.spool_dir()},
                           {"RANKLOG_START_DAEMON", "false"},
                           {"RANKLOG_DESTINATIONS", "local"},
                           {"OMP_NUM_THREADS", "1"}};
    std::vector<std::string> command = Torchrun(logs_.path(), arguments);
    command.insert(command.end(), {"sh", "-c", rank});
    return ChildProcess(command, options);
  }
  static std::vector<model::Run> Runs(const Node& node) {
    return node.Reader()->Runs().value_or(std::vector<model::Run>());
  }

  TempDir logs_;
};

// The id is the same both times, since address and port are.
TEST_F(TorchrunStartsTest, StaticRendezvousTwiceIsTwoRuns) {
  Node nodes[2];
  for (Node& node : nodes) node.Start();
  const std::string port = std::to_string(DeadPort(DeadPort::kRefuses).number());
  for (size_t start = 1; start <= 2; ++start) {
    std::vector<ChildProcess> agents;
    for (int node = 0; node < 2; ++node) {
      agents.push_back(
          Agent(nodes[node],
                {"--nnodes", "2", "--nproc_per_node", "1", "--node_rank", std::to_string(node),
                 "--master_addr", "127.0.0.1", "--master_port", port},
                std::string(LOGGING_RANK) + " 20"));
    }
    for (ChildProcess& agent : agents) ASSERT_EQ(agent.Wait(), 0) << agent.Output();
    for (const Node& node : nodes) EXPECT_TRUE(WaitFor([&] { return Runs(node).size() == start; }));
  }
  for (int node = 0; node < 2; ++node) {
    const std::vector<model::Run> runs = Runs(nodes[node]);  // newest first
    ASSERT_THAT(runs, SizeIs(2));
    const std::string rank = node == 0 ? "" : "-1";
    const std::string id = runs[1].run_id.substr(0, runs[1].run_id.size() - rank.size());
    EXPECT_EQ(runs[0].run_id, id + "-2" + rank);
    for (const model::Run& run : runs) {
      EXPECT_TRUE(WaitFor([&] { return nodes[node].RunHasEnded(run.run_id); }));
      EXPECT_EQ(nodes[node].GetRun(run.run_id).rows, 20u) << run.run_id;
      EXPECT_EQ(nodes[node].GetRun(run.run_id).late_rows, 0u) << run.run_id;
    }
  }
}

// The ranks fail once. They continue after the agent has restarted them.
TEST_F(TorchrunStartsTest, RestartContinuesTheRun) {
  Node node;
  node.Start();
  std::vector<std::string> arguments = Standalone();
  arguments.insert(arguments.end(), {"--nproc_per_node", "2", "--max_restarts", "1"});
  ChildProcess agent = Agent(node, arguments,
                             std::string(LOGGING_RANK) +
                                 " 20 0 0 none $((20 * TORCHELASTIC_RESTART_COUNT)); "
                                 "exit $((1 - TORCHELASTIC_RESTART_COUNT))");
  ASSERT_EQ(agent.Wait(), 0) << agent.Output();
  ASSERT_TRUE(WaitFor([&] { return !Runs(node).empty() && Runs(node)[0].rows == 40; }));
  EXPECT_THAT(Runs(node), SizeIs(1));
  EXPECT_THAT(*node.Reader()->Streams(Runs(node)[0].id), SizeIs(4));
}

}  // namespace
}  // namespace ranklog::testing
