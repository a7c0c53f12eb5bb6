#include "service/aggregate/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/service/aggregate/rows.h"

namespace ranklog::aggregate {
namespace {

using model::Json;

class RunSummaryTest : public ::testing::Test {
 protected:
  void Define(const std::string& name, std::vector<std::string> summary,
              const std::string& goal = "") {
    model::MetricDefinition definition;
    definition.name = name;
    definition.summary = std::move(summary);
    definition.goal = goal;
    table_.Define(definition);
  }
  void Losses(const std::vector<double>& values) {
    std::vector<RankRow> rows;
    for (double value : values) {
      rows.push_back({.step = static_cast<int64_t>(next_), .values = {value}, .time_us = 1500000});
      ++next_;
    }
    summary_.Add(BatchOf(next_ - values.size(), rows), {{}, {"loss"}});
  }
  Json Shown(const std::string& key) { return summary_.ToJson().value(key, Json()); }

  MetricTable table_;
  RunSummary summary_{&table_};
  uint64_t next_ = 0;
};

TEST_F(RunSummaryTest, IsTheLatestValueByDefault) {
  Losses({3, 1, 2});
  EXPECT_EQ(summary_.ToJson().dump(), R"({"loss":2.0,"_step":2,"_timestamp":1.5})");
}

TEST_F(RunSummaryTest, IsEmptyWithoutRows) { EXPECT_EQ(summary_.ToJson().dump(), "{}"); }

TEST_F(RunSummaryTest, ShowsTheFiguresAskedFor) {  // S11
  Define("lo*", {"min", "max", "mean", "last", "first"});
  Losses({3, 1});
  Losses({5});
  EXPECT_EQ(Shown("loss").dump(), R"({"min":1.0,"max":5.0,"mean":3.0,"last":5.0,"first":3.0})");
}

TEST_F(RunSummaryTest, LateDefinitionSeesEarlierRows) {
  Losses({3, 1, 2});
  Define("loss", {"min"});
  EXPECT_EQ(Shown("loss").dump(), R"({"min":1.0})");
}

TEST_F(RunSummaryTest, BestIsByGoal) {  // S11
  Losses({3, 1, 2});
  Define("loss", {"best"});
  EXPECT_EQ(Shown("loss"), 2.0);
  Define("loss", {}, "minimize");
  EXPECT_EQ(Shown("loss").dump(), R"({"best":1.0})");
  Define("loss", {}, "maximize");
  EXPECT_EQ(Shown("loss").dump(), R"({"best":3.0})");
}

TEST_F(RunSummaryTest, NoneHidesTheMetric) {
  Define("loss", {"none"});
  Losses({1});
  EXPECT_FALSE(summary_.ToJson().contains("loss"));
}

TEST_F(RunSummaryTest, NaNMakesMinMaxMeanNaN) {
  Define("loss", {"min", "max", "mean", "last"});
  Losses({1, std::nan(""), 2});
  const Json shown = Shown("loss");
  EXPECT_TRUE(std::isnan(shown["min"].get<double>()));
  EXPECT_TRUE(std::isnan(shown["max"].get<double>()));
  EXPECT_TRUE(std::isnan(shown["mean"].get<double>()));
  EXPECT_EQ(shown["last"], 2.0);
}

TEST_F(RunSummaryTest, MeanOfHugeValuesIsFinite) {
  constexpr double kMax = std::numeric_limits<double>::max();
  Define("loss", {"mean"});
  Losses({kMax, kMax, kMax});
  EXPECT_EQ(Shown("loss")["mean"], kMax);
  Losses({-kMax, -kMax, -kMax, -kMax, -kMax, -kMax});
  EXPECT_NEAR(Shown("loss")["mean"].get<double>() / kMax, -1.0 / 3, 1e-15);
  Losses({-std::numeric_limits<double>::infinity()});
  EXPECT_EQ(Shown("loss")["mean"], -std::numeric_limits<double>::infinity());
}

TEST_F(RunSummaryTest, FinalExplicitValueOverridesRows) {
  Define("loss", {"min"});
  Losses({1});
  summary_.Set({"loss", "done", model::Item().before_step});
  summary_.Set({"note", 7, model::Item().before_step});
  Losses({0});
  EXPECT_EQ(summary_.ToJson().dump(), R"({"loss":"done","_step":1,"_timestamp":1.5,"note":7})");
}

TEST_F(RunSummaryTest, LatestOfRowAndUpdateWins) {
  Losses({1, 2});  // steps 0 and 1
  summary_.Set({"loss", "between", 2});
  summary_.Set({"other", 7, 0});
  EXPECT_EQ(Shown("loss"), "between");
  Losses({3});
  EXPECT_EQ(Shown("loss"), 3.0);
  EXPECT_EQ(Shown("other"), 7);
  summary_.Set({"loss", "again", 3});
  EXPECT_EQ(Shown("loss"), "again");
}

TEST_F(RunSummaryTest, HiddenMetricKeepsExplicitValue) {
  Define("loss", {"none"});
  summary_.Set({"loss", 7, 0});
  Losses({3});
  EXPECT_EQ(Shown("loss"), 7);
}

TEST_F(RunSummaryTest, LatestFollowsStepNotBlock) {
  // Row 1 is in the first block and row 2 in the second, but row 3 is in the first again.
  model::Batch batch = BatchOf(1, {{.step = 1, .values = {1}},
                                   {.step = 2, .shape = 2, .values = {2, 9}},
                                   {.step = 3, .values = {3}}});
  summary_.Add(batch, {{}, {"a"}, {"a", "b"}});
  EXPECT_EQ(Shown("a"), 3.0);
  EXPECT_EQ(Shown("b"), 9.0);
}

// In a run that was rewound, replays have their own indexes.
TEST_F(RunSummaryTest, LatestFollowsStepNotIndex) {
  summary_.Add(BatchOf(60, {{.step = 60, .values = {1}}}), {{}, {"loss"}});
  summary_.Add(BatchOf(0, {{.step = 61, .values = {3}}}), {{}, {"loss"}});
  EXPECT_EQ(Shown("loss"), 3);
  EXPECT_EQ(Shown("_step"), 61);
}

TEST_F(RunSummaryTest, TextsCountAsLatest) {
  RankRow row{.step = 1, .shape = 0, .texts = {{"state", "warm"}}};
  summary_.Add(BatchOf(0, {row}), {{}});
  EXPECT_EQ(Shown("state"), "warm");
  summary_.AddValue("state", 4, 2);
  EXPECT_EQ(Shown("state"), 4.0);
}

TEST_F(RunSummaryTest, TypedValuesCountAsLatest) {
  const auto add = [&](int64_t step, const std::string& json) {
    model::Batch batch = BatchOf(0, {RankRow{.step = step, .shape = 0, .texts = {{"v", json}}}});
    batch.blocks[0].texts[0].json = true;
    summary_.Add(batch, {{}});
  };
  add(1, "true");
  EXPECT_EQ(Shown("v"), true);
  add(2, "9007199254740993");
  EXPECT_EQ(Shown("v"), int64_t{9007199254740993});
  add(3, "null");
  EXPECT_EQ(Shown("v"), int64_t{9007199254740993});
  summary_.AddValue("v", 4, 4);
  EXPECT_EQ(Shown("v"), 4.0);
}

TEST_F(RunSummaryTest, NullHasNoEntry) {
  model::Batch batch = BatchOf(0, {RankRow{.step = 1, .shape = 0, .texts = {{"v", "null"}}}});
  batch.blocks[0].texts[0].json = true;
  summary_.Add(batch, {{}});
  EXPECT_FALSE(summary_.ToJson().contains("v"));
}

// As in W&B's package.
TEST_F(RunSummaryTest, ObjectsKeepEarlierMembers) {
  const auto add = [&](int64_t step, const std::string& json) {
    model::Batch batch = BatchOf(0, {RankRow{.step = step, .shape = 0, .texts = {{"v", json}}}});
    batch.blocks[0].texts[0].json = true;
    summary_.Add(batch, {{}});
  };
  add(1, R"({"a":1,"b":{"c":1,"d":[1]}})");
  add(2, R"({"a":2,"b":{"d":[2]},"e":true})");
  EXPECT_EQ(Shown("v").dump(), R"({"a":2,"b":{"c":1,"d":[2]},"e":true})");
  add(3, R"({"a":null,"b":{"c":null,"d":{}},"g":{"h":null}})");
  EXPECT_EQ(Shown("v").dump(), R"({"a":2,"b":{"c":1,"d":[2]},"e":true})");
  add(3, "7");
  EXPECT_EQ(Shown("v"), 7);
  add(4, R"({"f":1})");
  EXPECT_EQ(Shown("v").dump(), R"({"f":1})");
}

}  // namespace
}  // namespace ranklog::aggregate
