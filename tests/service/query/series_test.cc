#include "service/query/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ranklog::query {
namespace {

TEST(SeriesTest, EachColumnKeepsItsExtremes) {
  Series series(0, 999, 10);
  for (int64_t x = 0; x < 1000; ++x) series.Add(x, x == 500 ? 100 : x == 501 ? -100 : 0);
  ASSERT_EQ(series.columns().size(), 10u);
  uint64_t count = 0;
  double min = 0, max = 0;
  for (const Series::Column& column : series.columns()) {
    EXPECT_GT(column.count, 0u);
    count += column.count;
    min = std::min(min, column.min);
    max = std::max(max, column.max);
  }
  EXPECT_EQ(count, 1000u);
  EXPECT_EQ(max, 100);
  EXPECT_EQ(min, -100);
  EXPECT_EQ(series.max(), 100);
  EXPECT_EQ(series.min(), -100);
}

TEST(SeriesTest, ColumnKeepsFirstAndLastValue) {
  Series series(0, 9, 1);
  for (const double y : {3.0, 7.0, 5.0}) series.Add(4, y);
  EXPECT_EQ(series.columns()[0].first, 3);
  EXPECT_EQ(series.columns()[0].last, 5);
  EXPECT_EQ(series.last(), 5);
  EXPECT_EQ(series.last_x(), 4);
}

TEST(SeriesTest, ValuesOutsideGoIntoOutermostColumns) {
  Series series(10, 20, 3);
  series.Add(-5, 1);
  series.Add(99, 2);
  EXPECT_EQ(series.columns()[0].count, 1u);
  EXPECT_EQ(series.columns()[1].count, 0u);
  EXPECT_EQ(series.columns()[2].count, 1u);
}

TEST(SeriesTest, NonFiniteValuesAreOnlyCounted) {
  Series series(0, 9, 2);
  for (const double y : {std::nan(""), std::numeric_limits<double>::infinity(), -HUGE_VAL}) {
    series.Add(9, y);
  }
  EXPECT_EQ(series.not_finite(), 3u);
  EXPECT_EQ(series.count(), 0u);
  series.Add(3, -2);
  EXPECT_EQ(series.count(), 1u);
  EXPECT_EQ(series.min(), -2);
  EXPECT_EQ(series.max(), -2);
  EXPECT_EQ(series.last_x(), 3);
}

// Steps may use the whole range of 64 bits.
TEST(SeriesTest, WidestRangeAndSingleStepAreDrawn) {
  Series wide(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 3);
  wide.Add(0, 1);
  EXPECT_EQ(wide.columns()[1].count, 1u);
  Series single(7, 7, 5);
  single.Add(7, 1);
  EXPECT_EQ(single.columns()[0].count, 1u);
}

}  // namespace
}  // namespace ranklog::query
