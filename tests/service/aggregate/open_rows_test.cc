#include "service/aggregate/join/open_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::aggregate {
namespace {

class OpenRowsTest : public ::testing::Test {
 protected:
  void Push(int64_t step, uint32_t shape, std::vector<double> values,
            const char* text_key = nullptr) {
    OpenRow row;
    row.seq = ++seq_;
    row.step = step;
    row.shape = shape;
    row.width = static_cast<uint32_t>(values.size());
    if (text_key != nullptr) {
      row.texts = std::make_unique<std::vector<model::Text>>();
      row.texts->push_back({0, text_key, "x"});
    }
    rows_.Push(std::move(row), values.data());
  }

  OpenRows rows_;
  uint64_t seq_ = 0;
};

TEST_F(OpenRowsTest, KeepsRowOrderAndValues) {
  uint64_t popped = 0;
  for (int i = 0; i < 20000; ++i) {
    Push(i, 1, {i + 0.25, i + 0.5});
    if (i % 3 != 0) {
      EXPECT_EQ(rows_.front().seq, ++popped);
      EXPECT_EQ(rows_.values(rows_.front())[1], static_cast<double>(popped - 1) + 0.5);
      rows_.Pop();
    }
  }
  while (!rows_.empty()) {
    EXPECT_EQ(rows_.values(rows_.front())[0], static_cast<double>(popped++) + 0.25);
    rows_.Pop();
  }
  EXPECT_EQ(rows_.cost(), 0u);
}

TEST_F(OpenRowsTest, SameStepAndShapeReplacesRow) {
  Push(1, 1, {1, 2});
  Push(1, 1, {3, 4});
  ASSERT_EQ(rows_.size(), 1u);
  EXPECT_EQ(rows_.front().seq, 2u);
  EXPECT_EQ(rows_.values(rows_.front())[1], 4);
}

TEST_F(OpenRowsTest, RowReplacesOnlyEqualTextKeys) {
  Push(1, 1, {1}, "a");
  Push(1, 1, {2}, "b");
  Push(1, 1, {3});
  EXPECT_EQ(rows_.size(), 3u);
  Push(2, 1, {1}, "a");
  Push(2, 1, {2}, "a");
  EXPECT_EQ(rows_.size(), 4u);
}

TEST_F(OpenRowsTest, EndlessStepUsesBoundedMemory) {
  Push(0, 9, {0});
  size_t most = 0;
  for (int i = 0; i < 100000; ++i) {
    const uint32_t shape = 1 + static_cast<uint32_t>(i % 3);
    Push(1, shape, std::vector<double>(shape, i));
    most = std::max(most, rows_.cost());
  }
  EXPECT_LT(most, 3000u);
  // The last row of each shape is there, in the order of these last rows.
  EXPECT_EQ(rows_.front().step, 0);
  const OpenRow& last = rows_.back();
  EXPECT_EQ(last.seq, 100001u);
  EXPECT_EQ(rows_.values(last)[0], 99999);
  for (size_t i = 1; i + 1 < rows_.size(); ++i) {
    EXPECT_LT(rows_[i].seq, rows_[i + 1].seq);
    EXPECT_EQ(rows_.values(rows_[i])[0], static_cast<double>(rows_[i].seq - 2));
  }
}

}  // namespace
}  // namespace ranklog::aggregate
