#include "service/deliver/wandb/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace ranklog::deliver::wandb {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kNoLimit = 1 << 30;
const std::vector<std::vector<std::string>> kShapes = {
    {}, {"loss"}, {"loss", "x"}, {"_step", "_runtime", "_timestamp"}};

// Returns rows of one shape from `first` on, one second apart. Row i has step 2 i.
model::Batch Rows(uint64_t first, uint32_t shape, std::vector<double> values) {
  const size_t width = kShapes[shape].size();
  model::Batch batch;
  batch.first = first;
  batch.last = first + values.size() / width - 1;
  model::Block& block = batch.blocks.emplace_back();
  block.shape = shape;
  for (uint64_t i = first; i <= batch.last; ++i) {
    block.offsets.push_back(static_cast<uint32_t>(i - first));
    block.steps.push_back(static_cast<int64_t>(2 * i));
    block.times_us.push_back(static_cast<int64_t>(i + 10) * 1000000 + 500000);
  }
  block.values = std::move(values);
  return batch;
}

class HistoryTest : public ::testing::Test {
 protected:
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (uint64_t row = lines_.first; row < lines_.end(); ++row) lines.push_back(lines_.Shown(row));
    return lines;
  }
  void Write(const model::Batch& batch, size_t max_bytes = kNoLimit) {
    history_.Write(batch, kShapes, batch.last + 1, max_bytes, bare_, &lines_);
  }

  aggregate::MetricTable table_;
  static RunClock ClockFrom(int64_t start_us) {
    model::Run run;
    run.started_us = start_us;
    return RunClock(run, {}, 0);
  }

  History history_{&table_, ClockFrom(10'000'000), /*max_line_bytes=*/200};
  HistoryLines lines_;
  std::set<uint64_t> bare_;
};

TEST_F(HistoryTest, WritesALinePerRow) {
  Write(Rows(0, 1, {0.5, std::nan("")}));
  EXPECT_THAT(Lines(), ElementsAre(R"({"loss":0.5,"_timestamp":10.5,"_runtime":0.5,"_step":0})",
                                   R"({"loss":NaN,"_timestamp":11.5,"_runtime":1.5,"_step":2})"));
  EXPECT_EQ(lines_.line_bytes, Lines()[0].size() + Lines()[1].size());
  EXPECT_EQ(lines_.Of(0, 2), lines_.content);
  EXPECT_EQ(lines_.Of(1, 1), lines_.content.substr(lines_.content.find(',', lines_.ends[0]) + 1));
}

TEST_F(HistoryTest, WritesTextsEscapedTwice) {
  model::Batch batch = Rows(0, 1, {1});
  batch.blocks[0].texts = {{0, "no\"te", "a \"b\"\n"}};
  Write(batch);
  EXPECT_THAT(
      Lines(),
      ElementsAre(R"({"loss":1,"no\"te":"a \"b\"\n","_timestamp":10.5,"_runtime":0.5,"_step":0})"));
  EXPECT_EQ(lines_.line_bytes, Lines()[0].size());
}

TEST_F(HistoryTest, WritesTypedValuesUnchanged) {
  model::Batch batch = Rows(0, 1, {1});
  batch.blocks[0].texts = {{0, "flag", "true", true},
                           {0, "large", "18446744073709551615", true},
                           {0, "m", R"({"a":{"b\n":[NaN,null,"x"]}})", true}};
  Write(batch);
  EXPECT_THAT(Lines(),
              ElementsAre(R"({"loss":1,"flag":true,"large":18446744073709551615,)"
                          R"("m":{"a":{"b\n":[NaN,null,"x"]}},"_timestamp":10.5,"_runtime":0.5,)"
                          R"("_step":0})"));
  EXPECT_EQ(lines_.line_bytes, Lines()[0].size());
}

TEST_F(HistoryTest, KeepsRowOrderAcrossShapes) {
  model::Batch batch = Rows(0, 1, {1, 3});
  batch.last = 2;
  batch.blocks[0].offsets = {0, 2};
  batch.blocks.push_back(Rows(0, 2, {2, 9}).blocks[0]);
  batch.blocks[1].offsets = {1};
  Write(batch);
  EXPECT_THAT(Lines(), ElementsAre(StartsWith("{\"loss\":1,"), StartsWith("{\"loss\":2,\"x\":9"),
                                   StartsWith("{\"loss\":3,")));
}

TEST_F(HistoryTest, RowOverridesOnlyTimestamp) {
  Write(Rows(0, 3, {77, 78, 79}));
  EXPECT_THAT(Lines(), ElementsAre(R"({"_timestamp":79,"_runtime":0.5,"_step":0})"));
}

TEST_F(HistoryTest, StopsAfterLineReachingLimit) {
  const model::Batch batch = Rows(0, 1, {1, 2, 3, 4});
  Write(batch, 1);
  EXPECT_EQ(history_.next(), 1u);
  Write(batch, lines_.line_bytes + 1);
  EXPECT_EQ(history_.next(), 2u);
  EXPECT_EQ(lines_.ends.size(), 2u);
}

TEST_F(HistoryTest, WritesTooLongLineBare) {
  model::Batch batch = Rows(0, 1, {1, 2});
  batch.blocks[0].texts = {{0, "essay", std::string(300, 'x')}};
  Write(batch);
  EXPECT_THAT(Lines(), ElementsAre(R"({"_timestamp":10.5,"_runtime":0.5,"_step":0})",
                                   HasSubstr("\"loss\":2")));
  ASSERT_EQ(lines_.too_long.size(), 1u);
  EXPECT_EQ(lines_.too_long[0].row, 0u);
  EXPECT_GT(lines_.too_long[0].bytes, 300u);
  EXPECT_THAT(lines_.too_long[0].content, HasSubstr("\"essay\":\"xxx"));
}

TEST_F(HistoryTest, WritesARefusedRowBare) {
  bare_ = {1};
  Write(Rows(0, 1, {1, 2}));
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr("loss"), R"({"_timestamp":11.5,"_runtime":1.5,"_step":2})"));
}

TEST_F(HistoryTest, RewindReproducesSameLines) {
  model::MetricDefinition loss;
  loss.name = "loss";
  loss.step_metric = "x";
  table_.Define(loss);
  Write(Rows(0, 2, {1, 7}));
  history_.Mark();
  lines_ = {};
  lines_.first = 1;
  Write(Rows(1, 1, {2}));
  Write(Rows(2, 2, {3, 8}));
  Write(Rows(3, 1, {4}));
  const std::vector<std::string> first = Lines();
  EXPECT_THAT(first[0], HasSubstr("\"x\":7,"));
  EXPECT_THAT(first[2], HasSubstr("\"x\":8,"));

  history_.Rewind();
  lines_ = {};
  lines_.first = 1;
  Write(Rows(1, 1, {2}));
  Write(Rows(2, 2, {3, 8}));
  Write(Rows(3, 1, {4}));
  EXPECT_EQ(Lines(), first);
}

// Like the official client.
// A row that has a text for its step metric keeps the text.
TEST_F(HistoryTest, StepMetricRemembersOnlyNumbers) {
  model::MetricDefinition loss;
  loss.name = "loss";
  loss.step_metric = "x";
  table_.Define(loss);
  model::Batch batch = Rows(0, 2, {0.5, 7});
  Write(batch);
  batch = Rows(1, 1, {0.25});
  batch.blocks[0].texts = {{0, "x", "seven"}};
  Write(batch);
  EXPECT_EQ(history_.summary().ToJson()["x"], "seven");
  Write(Rows(2, 1, {0.125}));
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr(R"({"loss":0.5,"x":7,)"),
                                   HasSubstr(R"({"loss":0.25,"x":"seven","_timestamp")"),
                                   HasSubstr(R"({"loss":0.125,"x":7,)")));
  EXPECT_EQ(history_.summary().ToJson()["x"], 7);
}

TEST_F(HistoryTest, SummaryCountsEachRowOnce) {
  model::MetricDefinition loss;
  loss.name = "loss";
  loss.summary = {"mean"};
  table_.Define(loss);
  history_.Skip(Rows(0, 1, {1, 2, 3}), kShapes, /*to=*/2);
  history_.Mark();
  Write(Rows(0, 1, {1, 2, 3}));
  history_.Rewind();
  Write(Rows(0, 1, {1, 2, 3}));
  EXPECT_EQ(history_.summary().ToJson()["loss"]["mean"], 2.0);
  EXPECT_EQ(history_.summary().ToJson()["_step"], 4);
}

TEST_F(HistoryTest, StopsAtReplaysAndSkipsThem) {
  history_.SetFirstStep(3);
  const model::Batch batch = Rows(0, 1, {1, 2, 3});  // steps 0, 2, 4
  Write(batch);
  EXPECT_TRUE(history_.at_replay());
  EXPECT_EQ(history_.next(), 0u);
  history_.SkipReplays(batch, kShapes, /*to=*/3);
  EXPECT_EQ(history_.next(), 2u);
  EXPECT_EQ(history_.SummaryJson()["_step"], 3) << "what the tracker has";
  EXPECT_EQ(history_.SummaryJson()["loss"], 2);
  lines_.first = 2;
  history_.Mark();
  Write(batch);
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("\"_step\":4}")));
  EXPECT_FALSE(history_.at_replay());
}

TEST_F(HistoryTest, RewindKeepsCountedSteps) {
  history_.SetFirstStep(3);
  model::Batch batch = Rows(0, 1, {1, 2, 3});
  batch.blocks[0].counted = true;
  history_.Skip(batch, kShapes, /*to=*/1);
  history_.Mark();
  for (int i = 0; i < 2; ++i) {
    lines_ = {};
    lines_.first = 1;
    Write(batch);
    EXPECT_THAT(Lines(), ElementsAre(HasSubstr("\"_step\":6}"), HasSubstr("\"_step\":8}")));
    EXPECT_THAT(lines_.steps, ElementsAre(6, 8));
    history_.Rewind();
  }
  EXPECT_EQ(history_.SummaryJson()["_step"], 8);
}

TEST(SliceTest, HasTheRowsAskedFor) {
  model::Batch batch = Rows(10, 2, {1, 2, 3, 4, 5, 6});
  batch.blocks[0].texts = {{0, "k", "a"}, {2, "k", "true", true}};
  const model::Batch slice = Slice(batch, 11, 12);
  EXPECT_EQ(slice.first, 11u);
  EXPECT_EQ(slice.last, 12u);
  EXPECT_THAT(slice.blocks[0].values, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(slice.blocks[0].offsets, ElementsAre(0, 1));
  EXPECT_THAT(slice.blocks[0].texts, ElementsAre(model::Text{1, "k", "true", true}));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
