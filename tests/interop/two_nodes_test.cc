// ranklog-train on two nodes, each with its daemon, and a W&B server on a third host: with the real
// launchers, on a real network whose links fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "tests/integration/node.h"
#include "tests/interop/lan.h"
#include "tests/interop/torchrun.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/figures.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kNodes[] = {"n0", "n1"};
const std::string kRuns[] = {"job-0", "job-2"};  // of the strategy `node`

// Whether `count` stays the same for so long, within a minute.
bool Stands(const std::function<uint64_t()>& count, absl::Duration duration) {
  return WaitFor(
      [&] {
        const uint64_t before = count();
        absl::SleepFor(duration);
        return count() == before;
      },
      absl::Minutes(1));
}

class TwoNodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(geteuid() == 0 && Lan::Possible(), "root, and network namespaces with a bridge");
    SKIP_WITHOUT(InPath("torchrun"), "torchrun (package python3-torch)");
    lan_ = std::make_unique<Lan>(std::vector<std::string>{kNodes[0], kNodes[1], "tracker"});
    lan_->MoveTo("tracker");
    wandb_ = std::make_unique<FakeWandb>(0, lan_->Address("tracker"));
    for (const std::string& name : kNodes) {
      nodes_.push_back(std::make_unique<Node>(
          std::vector<std::string>{"--wandb-transmit-interval", "100ms"},
          std::map<std::string, std::string>{}, /*launcher=*/lan_->On(name)));
      nodes_.back()->Start();
    }
  }

  // An agent of torchrun on a node, which runs two ranks of four.
  ChildProcess Agent(int node, const std::string& strategy, int steps,
                     const std::vector<std::string>& arguments = {}) const {
    ChildProcess::Options options;
    options.environment = WandbAt(wandb_->url());
    options.environment.insert({{"RANKLOG_ADDRESS", nodes_[node]->address()},
                                {"RANKLOG_SPOOL_DIR", nodes_[node]->spool_dir()},
                                {"RANKLOG_START_DAEMON", "false"},
                                {"RANKLOG_PROJECT", "test"},
                                {"RANKLOG_ALLOW_HTTP", "1"},
                                {"OMP_NUM_THREADS", "1"}});
    std::vector<std::string> flags = {"--nnodes",       "2",    "--nproc_per_node", "2",
                                      "--rdzv_backend", "c10d", "--rdzv_endpoint",  "n0:29400",
                                      "--rdzv_id",      "job"};
    flags.insert(flags.end(), arguments.begin(), arguments.end());
    std::vector<std::string> command = Torchrun(logs_[node].path(), flags);
    const std::vector<std::string> train = {RANKLOG_TRAIN,
                                            "--log-strategy",
                                            strategy,
                                            "--steps",
                                            absl::StrCat(steps),
                                            "--val-every",
                                            "0",
                                            "--batch-size",
                                            "1",
                                            "--seq-len",
                                            "16"};
    command.insert(command.end(), train.begin(), train.end());
    return ChildProcess(lan_->On(kNodes[node], command), options);
  }
  std::vector<ChildProcess> Agents(const std::string& strategy, int steps,
                                   const std::vector<std::string>& arguments = {}) const {
    std::vector<ChildProcess> agents;
    for (int node : {0, 1}) agents.push_back(Agent(node, strategy, steps, arguments));
    return agents;
  }
  static void ExpectDone(std::vector<ChildProcess>& agents) {
    for (ChildProcess& agent : agents) ASSERT_EQ(agent.Wait(), 0) << agent.Output();
  }

  // The runs that the server has, once these are complete.
  std::vector<std::string> RunsOnce(const std::vector<std::string>& complete) {
    EXPECT_TRUE(wandb_->WaitFor(
        [&](const std::map<std::string, FakeWandb::Run>& runs) {
          return std::all_of(complete.begin(), complete.end(), [&](const std::string& id) {
            return runs.count(id) != 0 && runs.at(id).complete;
          });
        },
        absl::Seconds(60)));
    EXPECT_THAT(wandb_->errors(), IsEmpty());
    std::vector<std::string> ids;
    for (const auto& [id, run] : wandb_->runs()) ids.push_back(id);
    return ids;
  }
  // At the server, from the node that is named.
  void ExpectEachStepOnce(const std::string& run_id, uint64_t steps,
                          const std::string& node) const {
    const FakeWandb::Run run = wandb_->run(run_id);
    ASSERT_THAT(run.history, SizeIs(steps)) << run_id;
    for (uint64_t step = 1; step <= steps; ++step) {
      const json row = ParseExtendedJson(run.history[step - 1]);
      ASSERT_EQ(row["_step"], step) << run_id;
      ASSERT_EQ(row["global_step"], step) << run_id;
      ASSERT_TRUE(row.contains("train/loss")) << run_id;
    }
    EXPECT_EQ(ParseExtendedJson(run.config)["node"]["value"], node) << run_id;
  }

  std::unique_ptr<Lan> lan_;
  std::unique_ptr<FakeWandb> wandb_;
  std::vector<std::unique_ptr<Node>> nodes_;
  TempDir logs_[2];
};

TEST_F(TwoNodesTest, MainIsOneRun) {  // S2
  std::vector<ChildProcess> agents = Agents("main", 20);
  ExpectDone(agents);
  EXPECT_THAT(RunsOnce({"job"}), ElementsAre("job"));
  ExpectEachStepOnce("job", 20, "n0");
  // The rows of the other node stay there.
  ASSERT_TRUE(WaitFor([&] { return nodes_[1]->RunHasEnded("job-2"); }));
  EXPECT_EQ(nodes_[1]->GetRun("job-2").rows, 20u);
}

TEST_F(TwoNodesTest, NodeIsARunForEachNode) {  // S3
  std::vector<ChildProcess> agents = Agents("node", 20);
  ExpectDone(agents);
  EXPECT_THAT(RunsOnce({"job-0", "job-2"}), ElementsAre("job-0", "job-2"));
  for (int node : {0, 1}) ExpectEachStepOnce(kRuns[node], 20, kNodes[node]);
}

TEST_F(TwoNodesTest, AllIsARunForEachRank) {  // S4
  std::vector<ChildProcess> agents = Agents("all", 20);
  ExpectDone(agents);
  EXPECT_THAT(RunsOnce({"job-0", "job-1", "job-2", "job-3"}),
              ElementsAre("job-0", "job-1", "job-2", "job-3"));
  for (int rank = 0; rank < 4; ++rank) {
    ExpectEachStepOnce(absl::StrCat("job-", rank), 20, kNodes[rank / 2]);
  }
}

// The switch drops packets: first between a node and the server, then between the nodes. Only their
// TCP notices. The soak cuts for longer.
TEST_F(TwoNodesTest, CutLinksLoseNoRowAndEndNoTraining) {
  const bool soak = getenv("RANKLOG_SOAK") != nullptr;
  std::vector<ChildProcess> agents = Agents("node", /*steps=*/1'000'000);
  const auto rows = [&](int node) { return nodes_[node]->GetRun(kRuns[node]).rows; };
  const auto delivered = [&](int node) { return wandb_->run(kRuns[node]).history.size(); };
  ASSERT_TRUE(WaitFor([&] { return delivered(0) > 10 && delivered(1) > 10; }))
      << agents[0].Output();

  lan_->Cut("n1", "tracker");
  const uint64_t rows_before = rows(1);
  const size_t other_before = delivered(0);
  EXPECT_TRUE(Stands([&] { return delivered(1); }, absl::Seconds(soak ? 30 : 3)));
  EXPECT_GT(rows(1), rows_before + 10) << "the training waited for the server";
  EXPECT_GT(delivered(0), other_before + 10) << "n0 is not cut off";
  const size_t at_server = delivered(1);
  lan_->Mend("n1", "tracker");
  absl::Time mended = SteadyNow();
  EXPECT_TRUE(WaitFor([&] { return delivered(1) > at_server; }, absl::Seconds(60)));
  ReportAtMost("n1 delivers, after its link is back", absl::ToDoubleSeconds(SteadyNow() - mended),
               "s", soak ? 45 : 15);

  lan_->Cut("n0", "n1");
  EXPECT_TRUE(Stands([&] { return rows(0); }, absl::Seconds(soak ? 5 : 2)));
  const uint64_t stood_at = rows(0);
  lan_->Mend("n0", "n1");
  mended = SteadyNow();
  EXPECT_TRUE(WaitFor([&] { return rows(0) > stood_at + 10; }));
  // TCP doubles the time to its next try, so that it waits about as long again as the link was cut.
  ReportAtMost("the training goes on, after the nodes' link is back",
               absl::ToDoubleSeconds(SteadyNow() - mended), "s", 10);

  for (ChildProcess& agent : agents) agent.Signal(SIGTERM);
  for (ChildProcess& agent : agents) ASSERT_TRUE(agent.Wait().has_value()) << agent.Output();
  EXPECT_THAT(RunsOnce({"job-0", "job-2"}), ElementsAre("job-0", "job-2"));
  for (int node : {0, 1}) {
    EXPECT_GT(rows(node), stood_at);
    ExpectEachStepOnce(kRuns[node], rows(node), kNodes[node]);
  }
}

}  // namespace
}  // namespace ranklog::testing
