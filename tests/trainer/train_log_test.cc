// The log of a training: the rows and metric definitions of the real ranklog-train at the real
// ranklogd.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/node.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class TrainLogTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }

  // Trains for 10 steps as the run "logged", unless the options give it another id.
  void Train(const std::vector<std::string>& more, bool own_id = false) const {
    ChildProcess::Options options;
    options.environment = {
        {"RANKLOG_ADDRESS", node_.address()}, {"RANKLOG_SPOOL_DIR", node_.spool_dir()},
        {"RANKLOG_START_DAEMON", "false"},    {"RANKLOG_DESTINATIONS", "local"},
        {"RANKLOG_RUN_ID", "logged"},         {"OMP_NUM_THREADS", "1"}};
    std::vector<std::string> command = {RANKLOG_TRAIN, "--steps",      "10", "--seq-len",
                                        "16",          "--batch-size", "2"};
    command.insert(command.end(), more.begin(), more.end());
    const Finished done = RunToEnd(command, options);
    ASSERT_EQ(done.code, 0) << done.output;
    if (own_id) return;
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("logged"); }));
  }
  // The metrics of each row, by step.
  std::map<int64_t, std::set<std::string>> Rows() const {
    std::istringstream lines(
        RunToEnd({RANKLOG_CLI, "export", "logged", "--state-dir", node_.state_dir()}).output);
    std::map<int64_t, std::set<std::string>> rows;
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      std::set<std::string>& metrics = rows[row["_step"].get<int64_t>()];
      for (const auto& [key, value] : row.items())
        if (key[0] != '_') metrics.insert(key);
    }
    return rows;
  }

  Node node_;
};

TEST_F(TrainLogTest, MetricsHaveGlobalStepAsTheirAxis) {
  Train({});
  const auto updates = node_.Reader()->Items(node_.GetRun("logged").id, /*after_id=*/0);
  ASSERT_TRUE(updates.ok());
  std::map<std::string, model::MetricDefinition> metrics;
  for (const model::StoredItem& stored : *updates) {
    if (stored.item.kind == model::Item::Kind::kMetric)
      metrics[stored.item.metric.name] = stored.item.metric;
  }
  const auto by_global_step = Field(&model::MetricDefinition::step_metric, "global_step");
  const auto minimized =
      AllOf(by_global_step, Field(&model::MetricDefinition::goal, "minimize"),
            Field(&model::MetricDefinition::summary, UnorderedElementsAre("min", "last")));
  EXPECT_THAT(metrics,
              UnorderedElementsAre(Pair("train/*", by_global_step), Pair("val/*", by_global_step),
                                   Pair("train/loss", minimized), Pair("val/loss", minimized)));
  EXPECT_THAT(Rows()[10], AllOf(Contains("train/loss"), Contains("val/loss"),
                                Contains("global_step"), Contains("epoch")));
}

TEST_F(TrainLogTest, LogEveryZeroLeavesOnlyValidation) {
  Train({"--log-every", "0", "--val-every", "5"});
  const std::set<std::string> validation = {"val/loss", "global_step", "epoch"};
  EXPECT_THAT(Rows(), ElementsAre(Pair(5, validation), Pair(10, validation)));
}

TEST_F(TrainLogTest, HistogramsAreInTheRowsOfTheirSteps) {
  Train({"--histograms", "5", "--nproc-per-node", "2"});
  const std::map<int64_t, std::set<std::string>> rows = Rows();
  ASSERT_EQ(rows.size(), 10u);
  for (const auto& [step, metrics] : rows) {
    EXPECT_EQ(metrics.count("gradients/wte.weight"), step % 5 == 0 ? 1u : 0u) << step;
    EXPECT_EQ(metrics.count("train/loss"), 1u) << step;
  }
  EXPECT_EQ(rows.at(5).count("gradients/h.3.mlp.c_proj.bias"), 1u);
}

TEST_F(TrainLogTest, CheckpointsAreArtifacts) {
  TempDir dir;
  Train({"--log-checkpoints", "--ckpt-every", "5", "--keep", "1", "--save-dir", dir.path(),
         "--experiment-name", "my first"},
        /*own_id=*/true);
  const Finished listed =
      RunToEnd({RANKLOG_CLI, "artifacts", "latest", "--json", "--state-dir", node_.state_dir()});
  const auto artifacts = nlohmann::json::parse(listed.output);
  ASSERT_EQ(artifacts.size(), 2u) << listed.output;
  EXPECT_EQ(artifacts[0]["name"], "my_first");
  EXPECT_EQ(artifacts[0]["type"], "model");
  EXPECT_EQ(artifacts[0]["aliases"], nlohmann::json({"latest", "step-5"}));
  EXPECT_EQ(artifacts[1]["step"], 10);
  EXPECT_EQ(artifacts[1]["state"], "local");
  EXPECT_GT(artifacts[1]["bytes"], 1'000'000);
}

TEST_F(TrainLogTest, CodeIsAnArtifactOfRank0) {
  TempDir dir;
  std::ofstream(dir.File("model.cc")) << "int main() {}";
  Train({"--log-code", dir.path(), "--nproc-per-node", "2"});
  const Finished listed =
      RunToEnd({RANKLOG_CLI, "artifacts", "latest", "--json", "--state-dir", node_.state_dir()});
  const auto artifacts = nlohmann::json::parse(listed.output);
  ASSERT_EQ(artifacts.size(), 1u) << listed.output;
  EXPECT_EQ(artifacts[0]["type"], "code");
  EXPECT_EQ(artifacts[0]["bytes"], 13);
}

TEST_F(TrainLogTest, LogEveryKeepsTheLastStep) {
  Train({"--log-every", "7", "--val-every", "0"});
  EXPECT_THAT(Rows(),
              ElementsAre(Pair(7, Contains("train/loss")), Pair(10, Contains("train/loss"))));
}

}  // namespace
}  // namespace ranklog::testing
