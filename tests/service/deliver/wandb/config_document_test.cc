#include "service/deliver/wandb/config_document.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace ranklog::deliver::wandb {
namespace {

using model::Json;

model::MetricDefinition Metric(const std::string& name) {
  model::MetricDefinition metric;
  metric.name = name;
  return metric;
}

TEST(ConfigDocumentTest, WrapsMembersAndAddsTelemetry) {
  const std::string text = ConfigDocument(
      {{"lr", 0.1}, {"opt", {{"name", "adam"}}}, {"bad", std::nan("")}}, Json::array());
  EXPECT_EQ(text.substr(0, text.find(",\"_wandb\"")),
            R"({"lr":{"value":0.1},"opt":{"value":{"name":"adam"}},"bad":{"value":NaN})");
  const Json own = Json::parse(ConfigDocument(Json::object(), Json::array()))["_wandb"]["value"];
  EXPECT_EQ(own["t"]["3"], Json::array({57}));
  EXPECT_EQ(own["t"]["12"].get<std::string>().rfind("ranklog-", 0), 0u);
  EXPECT_EQ(own["m"], Json::array());
}

TEST(ConfigDocumentTest, KeepsServersOwnMember) {
  const Json document = Json::parse(ConfigDocument({{"_wandb", 5}}, Json::array()));
  EXPECT_TRUE(document["_wandb"]["value"].is_object());
}

TEST(MetricListTest, ReferencesStepMetricsByPosition) {
  aggregate::MetricTable table;
  model::MetricDefinition loss = Metric("train/loss");
  loss.step_metric = "train/step";
  loss.summary = {"min", "best"};
  loss.goal = "minimize";
  table.Define(loss);
  EXPECT_EQ(
      MetricList(table, false, {}),
      Json::parse(
          R"([{"1":"train/loss","6":[1,3],"7":[1],"8":1,"5":2},{"1":"train/step","6":[],"7":[]}])"));
}

TEST(MetricListTest, ReferencesExplicitlyDefinedStepMetric) {
  aggregate::MetricTable table;
  table.Define(Metric("step"));
  model::MetricDefinition all = Metric("val/*");
  all.step_metric = "step";
  all.step_sync = false;
  all.hidden = true;
  table.Define(all);
  EXPECT_EQ(MetricList(table, false, {}),
            Json::parse(R"([{"1":"step","6":[3],"7":[]},{"2":"val/*","6":[2],"7":[],"5":1}])"));
}

TEST(MetricListTest, ExpandsGlobsForOlderServers) {
  aggregate::MetricTable table;
  model::MetricDefinition glob = Metric("val/*");
  glob.summary = {"max"};
  table.Define(glob);
  const std::vector<std::string> keys = {"val/a", "other", "val/b", "val/a"};
  EXPECT_EQ(MetricList(table, true, keys),
            Json::parse(R"([{"1":"val/a","6":[3],"7":[2]},{"1":"val/b","6":[3],"7":[2]}])"));
}

TEST(MetricListTest, EscapesDotsInKeys) {
  aggregate::MetricTable table;
  table.Define(Metric("a.b"));
  EXPECT_EQ(MetricList(table, false, {})[0]["1"], "a\\.b");
}

}  // namespace
}  // namespace ranklog::deliver::wandb
