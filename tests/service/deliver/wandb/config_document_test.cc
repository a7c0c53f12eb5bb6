#include "service/deliver/wandb/documents/config_document.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/server_json.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;

model::MetricDefinition Metric(const std::string& name) {
  model::MetricDefinition metric;
  metric.name = name;
  return metric;
}

TEST(ConfigDocumentTest, WrapsMembersAndAddsTelemetry) {
  const std::string text = ToJsonText(ConfigDocument(
      {{"lr", 0.1}, {"opt", {{"name", "adam"}}}, {"bad", std::nan("")}}, Json::array()));
  EXPECT_EQ(text.substr(0, text.find(",\"_wandb\"")),
            R"({"lr":{"value":0.1},"opt":{"value":{"name":"adam"}},"bad":{"value":NaN})");
  const Json own = ConfigDocument(Json::object(), Json::array())["_wandb"]["value"];
  EXPECT_EQ(own["t"]["3"], Json::array({57}));
  EXPECT_EQ(own["t"]["12"].get<std::string>().rfind("ranklog-", 0), 0u);
  EXPECT_EQ(own["m"], Json::array());
}

TEST(ConfigDocumentTest, KeepsServersOwnMember) {
  const Json document = ConfigDocument({{"_wandb", 5}}, Json::array());
  EXPECT_TRUE(document["_wandb"]["value"].is_object());
}

TEST(ConfigDocumentTest, HasTheWritersMetadata) {
  const Json document =
      ConfigDocument(Json::object(), Json::array(), {.id = "w", .metadata = {{"os", "Linux"}}});
  EXPECT_EQ(document["_wandb"]["value"]["e"], Json({{"w", {{"os", "Linux"}}}}));
}

class MergeConfigTest : public ::testing::Test {
 protected:
  // Sends each of `before`, the last one without an answer if `unanswered`; then the server has `server`; then the ranks' config is `now`.
  static Json Merge(const std::vector<Json>& before, const char* server, const Json& now,
                    bool unanswered = false) {
    std::map<std::string, std::string> sent;
    for (const Json& document : before) {
      const bool accepted = !unanswered || &document != &before.back();
      AddDigests(ConfigDocument(document, Json::array()), accepted, &sent);
    }
    Json merged = MergeConfig(ConfigDocument(now, Json::array()), ParseServerJson(server), sent);
    Json values = Json::object();
    for (const auto& [key, value] : merged.items()) {
      if (key != "_wandb") values[key] = value["value"];
    }
    return values;
  }
};

TEST_F(MergeConfigTest, WhatAPersonChangedStays) {
  EXPECT_EQ(Merge({{{"lr", 1}, {"seed", 2}}}, R"({"lr":{"value":9},"seed":{"value":2.0}})",
                  {{"lr", 1}, {"seed", 2}, {"new", 3}}),
            Json({{"lr", 9}, {"seed", 2}, {"new", 3}}));
}

TEST_F(MergeConfigTest, WhatARankSetsAgainCounts) {
  EXPECT_EQ(Merge({{{"lr", 1}}}, R"({"lr":{"value":9}})", {{"lr", 5}}), Json({{"lr", 5}}));
}

TEST_F(MergeConfigTest, AnEarlierValueOfOursDoesNotCount) {
  EXPECT_EQ(Merge({{{"lr", 1}}, {{"lr", 5}}}, R"({"lr":{"value":1}})", {{"lr", 5}}),
            Json({{"lr", 5}}));
}

// Found by the simulation: a request without an answer took effect after later ones.
TEST_F(MergeConfigTest, AnUnansweredValueOfOursDoesNotCount) {
  const char* const late = R"({"lr":{"value":5}})";
  EXPECT_EQ(Merge({{{"lr", 1}}, {{"lr", 5}}}, late, {{"lr", 1}}, /*unanswered=*/true),
            Json({{"lr", 1}}));
  EXPECT_EQ(Merge({{{"lr", 5}}}, late, {{"lr", 7}}, /*unanswered=*/true), Json({{"lr", 7}}));
  // It did not arrive, so a person's change is the older one.
  EXPECT_EQ(Merge({{{"lr", 1}}, {{"lr", 5}}}, R"({"lr":{"value":9}})", {{"lr", 5}},
                  /*unanswered=*/true),
            Json({{"lr", 5}}));
}

TEST_F(MergeConfigTest, OtherProgramsNumbersStayNumbers) {
  const Json merged =
      Merge({}, R"({"a":{"value":NaN},"b":{"value":[-Infinity,Infinity]}})", Json::object());
  EXPECT_EQ(ToJsonText(merged), R"({"a":NaN,"b":[-Infinity,Infinity]})");
}

TEST_F(MergeConfigTest, WhatAPersonAddedStays) {
  EXPECT_EQ(Merge({{{"lr", 1}, {"seed", 2}}}, R"({"lr":{"value":1},"by_hand":{"value":"x"}})",
                  {{"lr", 1}, {"seed", 2}}),
            Json({{"lr", 1}, {"seed", 2}, {"by_hand", "x"}}));
}

TEST_F(MergeConfigTest, ARunOfAnotherProgramKeepsItsKeys) {
  EXPECT_EQ(Merge({}, R"({"theirs":{"value":"x"},"lr":{"value":9}})", {{"lr", 1}}),
            Json({{"lr", 1}, {"theirs", "x"}}));
}

TEST_F(MergeConfigTest, ChartsAndOtherWritersStay) {
  const Json ours =
      ConfigDocument(Json::object(), Json::array(), {.id = "us", .metadata = {{"os", "Linux"}}});
  const Json own =
      MergeConfig(ours, ParseServerJson(R"({"_wandb":{"value":{"m":[1],"t":{"12":"0.31"},
      "visualize":{"a":{"panel":1}},"e":{"them":{"os":"Mac"},"us":{"os":"?"}}}}})"),
                  {})["_wandb"]["value"];
  EXPECT_EQ(own["m"], Json::array());
  EXPECT_EQ(own["visualize"]["a"]["panel"], 1);
  EXPECT_EQ(own["e"]["them"]["os"], "Mac");
  EXPECT_EQ(own["e"]["us"]["os"], "Linux");
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
