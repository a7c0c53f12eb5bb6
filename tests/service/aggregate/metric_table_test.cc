#include "service/aggregate/metric_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::aggregate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

model::MetricDefinition Definition(const std::string& name, const std::string& step_metric = "") {
  model::MetricDefinition definition;
  definition.name = name;
  definition.step_metric = step_metric;
  return definition;
}

TEST(MetricTableTest, FindsExactNameThenLongestPrefix) {  // S11
  MetricTable table;
  table.Define(Definition("*"));
  table.Define(Definition("train/*"));
  table.Define(Definition("train/lo*"));
  table.Define(Definition("train/loss"));
  EXPECT_EQ(table.Find("train/loss")->name, "train/loss");
  EXPECT_EQ(table.Find("train/lobe")->name, "train/lo*");
  EXPECT_EQ(table.Find("train/lr")->name, "train/*");
  EXPECT_EQ(table.Find("other")->name, "*");
}

TEST(MetricTableTest, PrefixesDoNotReachReservedKeys) {
  MetricTable table;
  table.Define(Definition("*"));
  EXPECT_EQ(table.Find("_step"), nullptr);
  table.Define(Definition("_step"));
  EXPECT_NE(table.Find("_step"), nullptr);
}

TEST(MetricTableTest, FindsNothingWhereNothingIsDefined) {
  MetricTable table;
  table.Define(Definition("a"));
  EXPECT_EQ(table.Find("b"), nullptr);
}

TEST(MetricTableTest, MergesRepeatedDefinitions) {
  MetricTable table;
  model::MetricDefinition first = Definition("loss");
  first.summary = {"min"};
  table.Define(first);
  model::MetricDefinition second = Definition("loss", "epoch");
  second.summary = {"min", "max"};
  second.hidden = true;
  second.goal = "minimize";
  second.step_sync = false;
  table.Define(second);

  ASSERT_EQ(table.definitions().size(), 1u);
  const model::MetricDefinition& merged = table.definitions()[0];
  EXPECT_EQ(merged.step_metric, "epoch");
  EXPECT_TRUE(merged.hidden);
  EXPECT_THAT(merged.summary, ElementsAre("min", "max"));
  EXPECT_EQ(merged.goal, "minimize");
  // The first definition had no step metric, so its step_sync was only the default.
  EXPECT_FALSE(merged.step_sync);
}

TEST(MetricTableTest, DefiningTwiceChangesNothing) {
  MetricTable table;
  table.Define(Definition("a", "s"));
  const uint64_t version = table.version();
  table.Define(Definition("a", "s"));
  EXPECT_EQ(table.version(), version);
}

class StepSyncTest : public ::testing::Test {
 protected:
  // Returns the values that are added to a row of these keys.
  std::vector<double> Next(uint32_t shape, const std::vector<std::string>& keys,
                           const std::vector<double>& values) {
    std::vector<double> added;
    const StepSync::Plan& plan = sync_.PlanFor(shape, keys);
    keys_added_ = plan.added;
    sync_.Next(plan, values.data(), &added);
    return added;
  }

  MetricTable table_;
  StepSync sync_{&table_};
  std::vector<std::string> keys_added_;
};

TEST_F(StepSyncTest, AddsLastKnownStepOrZero) {  // S11
  table_.Define(Definition("val/*", "epoch"));
  EXPECT_THAT(Next(1, {"val/loss", "val/acc"}, {1, 2}), ElementsAre(0));
  EXPECT_THAT(keys_added_, ElementsAre("epoch"));
  EXPECT_THAT(Next(2, {"epoch"}, {3}), IsEmpty());
  EXPECT_THAT(Next(1, {"val/loss", "val/acc"}, {1, 2}), ElementsAre(3));
}

TEST_F(StepSyncTest, SkipsRowsThatNeedNoStep) {
  table_.Define(Definition("loss", "epoch"));
  model::MetricDefinition unsynced = Definition("lr", "epoch");
  unsynced.step_sync = false;
  table_.Define(unsynced);
  table_.Define(Definition("acc", "_step"));
  EXPECT_THAT(Next(1, {"loss", "epoch"}, {1, 2}), IsEmpty());
  EXPECT_THAT(Next(2, {"lr"}, {1}), IsEmpty());
  EXPECT_THAT(Next(3, {"acc"}, {1}), IsEmpty());
}

TEST_F(StepSyncTest, UsesStepsLoggedBeforeDefinition) {
  EXPECT_THAT(Next(1, {"epoch"}, {7}), IsEmpty());
  EXPECT_THAT(Next(2, {"loss"}, {1}), IsEmpty());
  table_.Define(Definition("loss", "epoch"));
  EXPECT_THAT(Next(2, {"loss"}, {1}), ElementsAre(7));
}

}  // namespace
}  // namespace ranklog::aggregate
