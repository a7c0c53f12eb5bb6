// ranklog-train on two nodes, each with its daemon, and a W&B server on a third host. The launchers
// are real, and so is the network, whose links fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kPatience = absl::Minutes(3);  // a busy machine starts torchrun slowly
const std::string kNodes[] = {"n0", "n1"};
const std::string kRuns[] = {"job-0", "job-2"};  // of the strategy `node`

// Waits for at most a minute until `count` has been constant for `duration`. Returns whether it was.
bool Stands(const std::function<uint64_t()>& count, absl::Duration duration) {
  return WaitFor(
      [&] {
        const uint64_t before = count();
        absl::SleepFor(duration);
        return count() == before;
      },
      absl::Minutes(1));
}

void WriteScript(const std::string& path, const std::string& text) {
  std::ofstream(path) << "#!/bin/sh\n" << text;
  chmod(path.c_str(), 0755);
}

// The command as one line for a shell.
std::string Quoted(const std::vector<std::string>& command) {
  return absl::StrJoin(command, " ", [](std::string* line, const std::string& word) {
    absl::StrAppend(line, "'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
  });
}

std::vector<pid_t> ChildrenOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/task/", process, "/children"));
  return {std::istream_iterator<pid_t>(file), {}};
}

bool HasCheckpoint(const std::string& experiment) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(experiment, error))
    if (entry.path().extension() == ".safetensors") return true;
  return false;
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
          std::vector<std::string>{"--transmit-interval", "100ms"},
          std::map<std::string, std::string>{}, /*launcher=*/lan_->On(name)));
      nodes_.back()->Start();
    }
  }

  // The common environment of the ranks of both nodes.
  ChildProcess::Options RankOptions() const {
    ChildProcess::Options options;
    options.environment = WandbAt(wandb_->url());
    options.environment.insert({{"RANKLOG_START_DAEMON", "false"},
                                {"RANKLOG_PROJECT", "test"},
                                {"RANKLOG_ALLOW_HTTP", "1"},
                                {"OMP_NUM_THREADS", "1"}});
    return options;
  }
  static std::vector<std::string> TrainCommand(const std::string& strategy, int steps) {
    return {RANKLOG_TRAIN,
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
  }
  // A job of torchrun with two ranks on each node.
  struct Job {
    std::string strategy;
    int steps = 20;
    int max_restarts = 0;
    std::string save_dir = "";  // continues the run of an earlier start; both nodes see it
    int save_every = 1000;
  };
  ChildProcess Agent(int node, const Job& job) const {
    ChildProcess::Options options = RankOptions();
    options.environment["RANKLOG_ADDRESS"] = nodes_[node]->address();
    options.environment["RANKLOG_SPOOL_DIR"] = nodes_[node]->spool_dir();
    std::vector<std::string> command =
        Torchrun(logs_[node].path(), {"--nnodes", "2", "--nproc_per_node", "2", "--rdzv_backend",
                                      "c10d", "--rdzv_endpoint", "n0:29400", "--rdzv_id", "job",
                                      "--max_restarts", absl::StrCat(job.max_restarts)});
    const std::vector<std::string> train = TrainCommand(job.strategy, job.steps);
    command.insert(command.end(), train.begin(), train.end());
    if (!job.save_dir.empty()) {
      command.insert(command.end(), {"--save-dir", job.save_dir, "--experiment-name", "elastic",
                                     "--resume", "--save-every", absl::StrCat(job.save_every)});
    }
    return ChildProcess(lan_->On(kNodes[node], command), options);
  }
  std::vector<ChildProcess> Agents(const Job& job) const {
    std::vector<ChildProcess> agents;
    for (int node : {0, 1}) agents.push_back(Agent(node, job));
    return agents;
  }
  static void ExpectDone(std::vector<ChildProcess>& agents) {
    for (ChildProcess& agent : agents) ASSERT_EQ(agent.Wait(kPatience), 0) << agent.Output();
  }

  // Waits until the runs `complete` are complete. Returns the ids of all runs at the server.
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
  // Checks the run at the server: steps 1 to `steps`, each once, from this node.
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

  // Waits until the server has rows of both nodes' runs. Returns the ids of the runs.
  std::vector<std::string> RunsThatBothDeliver() const {
    EXPECT_TRUE(wandb_->WaitFor(
        [](const std::map<std::string, FakeWandb::Run>& runs) {
          return runs.size() == 2 && std::all_of(runs.begin(), runs.end(), [](const auto& run) {
                   return run.second.history.size() > 10;
                 });
        },
        kPatience));
    std::vector<std::string> ids;
    for (const auto& [id, run] : wandb_->runs()) ids.push_back(id);
    EXPECT_THAT(ids, ElementsAre(EndsWith("-0"), EndsWith("-2")));
    return ids;
  }

  // The two local ranks of each node were started twice, and each step arrived once.
  void ExpectTwoAttempts(const std::string (&runs)[2], uint64_t steps) const {
    for (int node : {0, 1}) {
      EXPECT_THAT(*nodes_[node]->Reader()->Streams(nodes_[node]->GetRun(runs[node]).id), SizeIs(4));
      ExpectEachStepOnce(runs[node], steps, kNodes[node]);
    }
  }

  std::unique_ptr<Lan> lan_;
  std::unique_ptr<FakeWandb> wandb_;
  std::vector<std::unique_ptr<Node>> nodes_;
  TempDir logs_[2];
};

TEST_F(TwoNodesTest, MainIsOneRun) {  // S2
  std::vector<ChildProcess> agents = Agents({.strategy = "main"});
  ExpectDone(agents);
  EXPECT_THAT(RunsOnce({"job"}), ElementsAre("job"));
  ExpectEachStepOnce("job", 20, "n0");
  // The rows of the other node stay on that node.
  ASSERT_TRUE(WaitFor([&] { return nodes_[1]->RunHasEnded("job-2"); }));
  EXPECT_EQ(nodes_[1]->GetRun("job-2").rows, 20u);
}

TEST_F(TwoNodesTest, NodeIsOneRunPerNode) {  // S3
  std::vector<ChildProcess> agents = Agents({.strategy = "node"});
  ExpectDone(agents);
  EXPECT_THAT(RunsOnce({"job-0", "job-2"}), ElementsAre("job-0", "job-2"));
  for (int node : {0, 1}) ExpectEachStepOnce(kRuns[node], 20, kNodes[node]);
}

TEST_F(TwoNodesTest, AllIsOneRunPerRank) {  // S4
  std::vector<ChildProcess> agents = Agents({.strategy = "all"});
  ExpectDone(agents);
  EXPECT_THAT(RunsOnce({"job-0", "job-1", "job-2", "job-3"}),
              ElementsAre("job-0", "job-1", "job-2", "job-3"));
  for (int rank = 0; rank < 4; ++rank) {
    ExpectEachStepOnce(absl::StrCat("job-", rank), 20, kNodes[rank / 2]);
  }
}

// mpirun reaches the other node by a replacement of ssh.
TEST_F(TwoNodesTest, MpirunStartsRanksOnBothNodes) {  // S5
  SKIP_WITHOUT(InPath("mpirun"), "Open MPI (openmpi-bin)");
  TempDir dir;
  WriteScript(dir.File("remote.sh"),
              "[ $1 = n1 ] || exit 1\nshift\nexec " + Quoted(lan_->On("n1")) + " sh -c \"$*\"\n");
  WriteScript(dir.File("rank.sh"),
              "eval \"export RANKLOG_ADDRESS=\\$ADDRESS_$(hostname) "
              "RANKLOG_SPOOL_DIR=\\$SPOOL_$(hostname)\"\nexec " +
                  Quoted(TrainCommand("all", 20)) + "\n");
  ChildProcess::Options options = RankOptions();
  options.environment.insert({{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}});
  for (int node : {0, 1}) {
    options.environment["ADDRESS_" + kNodes[node]] = nodes_[node]->address();
    options.environment["SPOOL_" + kNodes[node]] = nodes_[node]->spool_dir();
  }
  const Finished run =
      RunToEnd(lan_->On("n0", {"mpirun", "--allow-run-as-root", "--host", "n0:2,n1:2", "-np", "4",
                               "--mca", "plm_rsh_agent", dir.File("remote.sh"), "--mca",
                               "oob_tcp_if_include", "eth0", dir.File("rank.sh")}),
               options, kPatience);
  ASSERT_EQ(run.code, 0) << run.output;
  ASSERT_TRUE(wandb_->WaitFor(
      [](const std::map<std::string, FakeWandb::Run>& runs) {
        return runs.size() == 4 && std::all_of(runs.begin(), runs.end(), [](const auto& entry) {
                 return entry.second.complete;
               });
      },
      absl::Seconds(60)));
  EXPECT_THAT(wandb_->errors(), IsEmpty());
  std::set<int> ranks;
  for (const auto& [id, run] : wandb_->runs()) {
    const json config = ParseExtendedJson(run.config);
    const int rank = config["rank"]["value"];
    ranks.insert(rank);
    EXPECT_TRUE(absl::EndsWith(id, absl::StrCat("-", rank))) << id;
    EXPECT_EQ(config["local_rank"]["value"], rank % 2) << id;
    EXPECT_EQ(config["world_size"]["value"], 4) << id;
    ExpectEachStepOnce(id, 20, kNodes[rank / 2]);
  }
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3));
}

// All ranks resume from the checkpoint that rank 0 wrote. The steps that the server already has do
// not change.
TEST_F(TwoNodesTest, KilledRankRestartsAllRanks) {  // S41
  const TempDir save_dir;
  std::vector<ChildProcess> agents = Agents({.strategy = "node",
                                             .steps = 150,
                                             .max_restarts = 1,
                                             .save_dir = save_dir.path(),
                                             .save_every = 20});
  const std::vector<std::string> ids = RunsThatBothDeliver();
  ASSERT_THAT(ids, SizeIs(2)) << agents[0].Output();
  ASSERT_TRUE(WaitFor([&] { return HasCheckpoint(save_dir.File("elastic")); }, kPatience))
      << agents[0].Output();
  ASSERT_THAT(ChildrenOf(agents[1].pid()), SizeIs(2));
  kill(ChildrenOf(agents[1].pid()).front(), SIGKILL);
  ExpectDone(agents);
  EXPECT_THAT(agents[0].Output() + agents[1].Output(), HasSubstr("resuming after step "));
  EXPECT_THAT(RunsOnce(ids), ElementsAreArray(ids));
  ExpectTwoAttempts({ids[0], ids[1]}, 150);
}

// A node crashes and comes back. Its new agent counts its restarts from 0, so that its daemon takes
// the ranks for a second start, which only --resume lets continue. Runs only in the soak: torchrun
// takes an agent for dead after 15 s.
TEST_F(TwoNodesTest, DISABLED_NewAgentJoinsAfterNodeFailure) {  // S41; 2026-11-23: takes too long
  const TempDir save_dir;
  const Job job = {
      .strategy = "node", .steps = 300, .max_restarts = 3, .save_dir = save_dir.path()};
  std::vector<ChildProcess> agents = Agents(job);
  const std::vector<std::string> ids = RunsThatBothDeliver();
  ASSERT_THAT(ids, SizeIs(2)) << agents[0].Output();
  const std::vector<pid_t> ranks = ChildrenOf(agents[1].pid());
  ASSERT_THAT(ranks, SizeIs(2));
  agents[1].Kill();
  for (const pid_t rank : ranks) kill(rank, SIGKILL);
  agents.pop_back();
  agents.push_back(Agent(1, job));
  ExpectDone(agents);
  EXPECT_THAT(RunsOnce(ids), ElementsAreArray(ids));
  ExpectTwoAttempts({ids[0], ids[1]}, 300);
}

// The switch drops packets, first between a node and the server, then between the nodes. Only TCP
// notices that. The soak cuts the links for longer.
TEST_F(TwoNodesTest, TrainingSurvivesCutLinksWithoutLoss) {
  const bool soak = getenv("RANKLOG_SOAK") != nullptr;
  std::vector<ChildProcess> agents = Agents({.strategy = "node", .steps = 30'000});
  const auto rows = [&](int node) { return nodes_[node]->GetRun(kRuns[node]).rows; };
  const auto delivered = [&](int node) { return wandb_->run(kRuns[node]).history.size(); };
  ASSERT_TRUE(WaitFor([&] { return delivered(0) > 10 && delivered(1) > 10; }, kPatience))
      << agents[0].Output();

  lan_->Cut("n1", "tracker");
  const uint64_t rows_before = rows(1);
  const size_t other_before = delivered(0);
  EXPECT_TRUE(Stands([&] { return delivered(1); }, absl::Seconds(soak ? 30 : 3)));
  EXPECT_TRUE(WaitFor([&] { return rows(1) > rows_before + 10; })) << "it waits for the server";
  EXPECT_TRUE(WaitFor([&] { return delivered(0) > other_before + 10; })) << "n0 is not cut off";
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
  // TCP doubles its retransmission timeout, so it waits about as long again as the link was cut.
  ReportAtMost("the training goes on, after the nodes' link is back",
               absl::ToDoubleSeconds(SteadyNow() - mended), "s", 10);

  for (ChildProcess& agent : agents) agent.Signal(SIGTERM);
  for (ChildProcess& agent : agents)
    ASSERT_TRUE(agent.Wait(kPatience).has_value()) << agent.Output();
  EXPECT_THAT(RunsOnce({"job-0", "job-2"}), ElementsAre("job-0", "job-2"));
  for (int node : {0, 1}) {
    EXPECT_GT(rows(node), stood_at);
    ExpectEachStepOnce(kRuns[node], rows(node), kNodes[node]);
  }
}

}  // namespace
}  // namespace ranklog::testing
