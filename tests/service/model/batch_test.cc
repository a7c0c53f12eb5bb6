#include "service/model/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/support/status_matchers.h"

namespace ranklog::model {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Positions 5 to 9: three rows of shape 1 (two values each) at 5, 6 and 8, and two rows with only
// texts at 7 and 9.
Batch Mixed() {
  Batch batch{.first = 5, .last = 9, .blocks = {}};
  Block numbers;
  numbers.shape = 1;
  numbers.offsets = {0, 1, 3};
  numbers.steps = {10, 10, 12};
  numbers.times_us = {100, 200, 150};
  numbers.values = {1, 2, 3, 4, 5, 6};
  numbers.texts = {{0, "k", "five"}, {2, "k", "eight"}};
  Block texts;
  texts.offsets = {2, 4};
  texts.steps = {11, 13};
  texts.times_us = {100, 100};
  texts.texts = {{0, "k", "seven"}, {1, "k", "nine"}};
  batch.blocks = {numbers, texts};
  return batch;
}

std::vector<std::pair<uint64_t, int64_t>> PositionsAndSteps(const Batch& batch) {
  std::vector<std::pair<uint64_t, int64_t>> rows;
  ForEachRow(batch, [&](const Block& block, size_t row, uint64_t position) {
    rows.emplace_back(position, block.steps[row]);
  });
  return rows;
}

TEST(BatchTest, VisitsRowsInPositionOrder) {
  EXPECT_OK(Validate(Mixed()));
  EXPECT_THAT(PositionsAndSteps(Mixed()),
              ElementsAre(std::pair(5, 10), std::pair(6, 10), std::pair(7, 11), std::pair(8, 12),
                          std::pair(9, 13)));
}

TEST(BatchTest, KeepsTheRowsAfterAPosition) {
  const Batch kept = DropThrough(Mixed(), 6);
  EXPECT_OK(Validate(kept));
  EXPECT_THAT(PositionsAndSteps(kept),
              ElementsAre(std::pair(7, 11), std::pair(8, 12), std::pair(9, 13)));
  EXPECT_THAT(kept.blocks[0].values, ElementsAre(5, 6));
  EXPECT_THAT(kept.blocks[0].texts, ElementsAre(Text{0, "k", "eight"}));
  EXPECT_THAT(kept.blocks[1].texts, ElementsAre(Text{0, "k", "seven"}, Text{1, "k", "nine"}));
}

TEST(BatchTest, FullyDroppedBlockIsRemoved) {
  const Batch kept = DropThrough(Mixed(), 8);
  EXPECT_OK(Validate(kept));
  ASSERT_EQ(kept.blocks.size(), 1);
  EXPECT_EQ(kept.blocks[0].shape, 0);
}

TEST(BatchTest, DropsNothingBeforeItsFirstRow) { EXPECT_EQ(DropThrough(Mixed(), 4), Mixed()); }

struct Flaw {
  const char* name;
  std::function<void(Batch&)> make;
  const char* message;
};

class BatchFlawTest : public ::testing::TestWithParam<Flaw> {};

TEST_P(BatchFlawTest, InvalidBatchIsRefused) {
  Batch batch = Mixed();
  GetParam().make(batch);
  EXPECT_THAT(Validate(batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BatchFlawTest,
    ::testing::Values(
        Flaw{"Backwards", [](Batch& b) { b.last = 4; }, "from position 5 to 4"},
        Flaw{"TooLong", [](Batch& b) { b.last = uint64_t{1} << 40; }, "from position 5"},
        Flaw{"RowMissing", [](Batch& b) { b.last = 10; }, "6 positions with 5 rows"},
        Flaw{"RowTwice",
             [](Batch& b) {
               b.blocks[1].offsets = {1, 4};
             },
             "same position"},
        Flaw{"RowAfterTheLast",
             [](Batch& b) {
               b.blocks[1].offsets = {2, 5};
             },
             "after the batch"},
        Flaw{"OffsetsRepeated",
             [](Batch& b) {
               b.blocks[0].offsets = {0, 0, 3};
             },
             "offsets"},
        Flaw{"OffsetsBackwards",
             [](Batch& b) {
               b.blocks[0].offsets = {1, 0, 3};
             },
             "offsets"},
        Flaw{"StepMissing", [](Batch& b) { b.blocks[0].steps.pop_back(); }, "step per row"},
        Flaw{"StepsBackwards",
             [](Batch& b) {
               b.blocks[0].steps = {12, 10, 10};
             },
             "steps out"},
        Flaw{"TimeMissing", [](Batch& b) { b.blocks[0].times_us.pop_back(); }, "time per row"},
        Flaw{"ValueMissing", [](Batch& b) { b.blocks[0].values.pop_back(); }, "fill the rows"},
        Flaw{"NoValues", [](Batch& b) { b.blocks[0].values.clear(); }, "without values"},
        Flaw{"NoShape", [](Batch& b) { b.blocks[0].shape = 0; }, "without a shape"},
        Flaw{"TextOfNoRow", [](Batch& b) { b.blocks[0].texts[1].row = 3; }, "does not exist"},
        Flaw{"TextsBackwards",
             [](Batch& b) { b.blocks[1].texts[0].row = 1, b.blocks[1].texts[1].row = 0; },
             "texts out"},
        Flaw{"TextIsNotJson", [](Batch& b) { b.blocks[0].texts[0].json = true; }, "not JSON"},
        Flaw{"EmptyTextKey", [](Batch& b) { b.blocks[0].texts[0].key = ""; }, "empty key"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ranklog::model
