#include "service/cli/output/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace ranklog::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

PlotSize Ascii(int width, int height) {
  PlotSize size;
  size.width = width;
  size.height = height;
  size.ascii = true;
  return size;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Returns what is drawn to the right of the axis.
std::vector<std::string> Curve(const std::string& text, int height) {
  std::vector<std::string> curve;
  const std::vector<std::string> lines = Lines(text);
  for (int i = 1; i <= height; ++i) curve.push_back(lines[i].substr(lines[i].find('|') + 1));
  return curve;
}

TEST(SeriesTest, KeepsMinAndMaxPerColumn) {
  query::Series series(0, 999999, 10);
  for (int x = 0; x < 1000000; ++x) series.Add(x, x == 345678 ? 100 : x == 345679 ? -100 : 1);
  const query::Series::Column& column = series.columns()[3];
  EXPECT_EQ(column.max, 100);
  EXPECT_EQ(column.min, -100);
  EXPECT_EQ(column.last, 1);
  EXPECT_EQ(series.count(), 1000000);
  EXPECT_EQ(series.max(), 100);
  EXPECT_EQ(series.min(), -100);
}

TEST(SeriesTest, CountsAndSkipsNonFiniteValues) {
  query::Series series(0, 2, 3);
  series.Add(0, NAN);
  series.Add(1, 5);
  series.Add(2, INFINITY);
  EXPECT_EQ(series.count(), 1);
  EXPECT_EQ(series.not_finite(), 2);
  EXPECT_EQ(series.max(), 5);
  EXPECT_EQ(series.last(), 5);
  EXPECT_EQ(series.last_x(), 1);
}

TEST(SeriesTest, HandlesSinglePointAndLateSteps) {
  query::Series one(7, 7, 5);
  one.Add(7, 1);
  EXPECT_EQ(one.columns()[0].count, 1);
  query::Series late(0, 10, 5);
  late.Add(99, 1);
  EXPECT_EQ(late.columns()[4].count, 1);
}

TEST(PlotTest, FallingCurveDescendsLeftToRight) {
  const PlotSize size = Ascii(32, 5);
  query::Series series(0, 19, size.dot_columns());
  for (int x = 0; x < 20; ++x) series.Add(x, 20 - x);
  const std::vector<std::string> curve = Curve(DrawPlot("loss", series, size, {}), 5);
  EXPECT_NE(curve.front().front(), ' ');
  EXPECT_EQ(curve.front().back(), ' ');
  EXPECT_EQ(curve.back().front(), ' ');
  EXPECT_NE(curve.back().back(), ' ');
}

TEST(PlotTest, HasRequestedSize) {
  const PlotSize size = Ascii(60, 7);
  query::Series series(0, 100, size.dot_columns());
  for (int x = 0; x <= 100; ++x) series.Add(x, std::sin(x));
  const std::vector<std::string> lines = Lines(DrawPlot("sine", series, size, {}));
  EXPECT_THAT(lines, SizeIs(1 + 7 + 2)) << "title, curve, axis and its labels";
  for (size_t i = 1; i < lines.size(); ++i) EXPECT_THAT(lines[i], SizeIs(60)) << i;
}

TEST(PlotTest, LabelsTheAxes) {
  const PlotSize size = Ascii(60, 5);
  query::Series series(10, 250, size.dot_columns());
  series.Add(10, 4);
  series.Add(250, 2);
  const std::vector<std::string> lines = Lines(DrawPlot("train/loss", series, size, {}));
  EXPECT_EQ(lines[0], "train/loss  last 2  min 2  max 4");
  EXPECT_THAT(lines[1], StartsWith("         4 |"));
  EXPECT_THAT(lines[3], StartsWith("         3 |"));
  EXPECT_THAT(lines[5], StartsWith("         2 |"));
  EXPECT_THAT(lines[7], HasSubstr("step"));
  EXPECT_THAT(lines[7], StartsWith("            10 "));
  EXPECT_TRUE(absl::EndsWith(lines[7], " 250"));
}

TEST(PlotTest, DistinguishesNearlyEqualLabels) {
  const PlotSize size = Ascii(60, 3);
  query::Series series(0, 1, size.dot_columns());
  series.Add(0, 1.00001);
  series.Add(1, 1.00002);
  const std::vector<std::string> lines = Lines(DrawPlot("x", series, size, {}));
  EXPECT_THAT(lines[1], HasSubstr("1.00002 |"));
  EXPECT_THAT(lines[3], HasSubstr("1.00001 |"));
}

TEST(PlotTest, TitleDistinguishesMinFromMax) {
  const PlotSize size = Ascii(60, 3);
  query::Series series(0, 1, size.dot_columns());
  series.Add(0, 1e9 + 0.25);
  series.Add(1, 1e9 + 0.5);
  EXPECT_EQ(Lines(DrawPlot("x", series, size, {}))[0],
            "x  last 1000000000.5  min 1000000000.2  max 1000000000.5");
}

TEST(PlotTest, LabelsTheLargestDoubles) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const PlotSize size = Ascii(60, 3);
  query::Series series(0, 1, size.dot_columns());
  series.Add(0, -kLargest);
  series.Add(1, kLargest);
  const std::vector<std::string> lines = Lines(DrawPlot("x", series, size, {}));
  EXPECT_THAT(lines[1], StartsWith("1.798e+308 |"));
  EXPECT_THAT(lines[2], StartsWith("         0 |"));
  EXPECT_THAT(lines[3], StartsWith("-1.798e+308 |"));
  query::Series constant(0, 1, size.dot_columns());
  constant.Add(0, kLargest);
  EXPECT_THAT(DrawPlot("x", constant, size, {}), Not(HasSubstr("Infinity")));
}

TEST(PlotTest, DrawsConstantThroughMiddle) {
  const PlotSize size = Ascii(32, 5);
  query::Series series(0, 19, size.dot_columns());
  for (int x = 0; x < 20; ++x) series.Add(x, 3);
  const std::vector<std::string> curve = Curve(DrawPlot("lr", series, size, {}), 5);
  EXPECT_THAT(curve[2], Not(HasSubstr(" ")));
}

TEST(PlotTest, DrawsBrailleInUnicode) {
  PlotSize size;
  size.width = 32;
  size.height = 1 + 1;
  query::Series series(0, 1, size.dot_columns());
  series.Add(0, 0);
  series.Add(1, 1);
  const std::string text = DrawPlot("x", series, size, {});
  EXPECT_EQ(size.dot_columns(), 2 * (32 - 12));
  EXPECT_THAT(text, HasSubstr("\u28C0")) << "the lower left begins with two dots of the lowest row";
  EXPECT_THAT(text, HasSubstr("┤"));
}

TEST(PlotTest, ReportsSeriesWithoutFiniteValues) {
  const PlotSize size = Ascii(60, 5);
  query::Series series(0, 1, size.dot_columns());
  series.Add(0, NAN);
  EXPECT_EQ(DrawPlot("loss", series, size, {}), "loss  1 not finite\n");
}

TEST(PlotTest, SurvivesTheLargestNumbers) {
  const PlotSize size = Ascii(60, 5);
  const int64_t far = std::numeric_limits<int64_t>::max();
  query::Series series(-far, far, size.dot_columns());
  series.Add(-far, std::numeric_limits<double>::lowest());
  series.Add(far, std::numeric_limits<double>::max());
  EXPECT_THAT(Lines(DrawPlot("x", series, size, {})), SizeIs(8));
}

TEST(PlotTest, TitleControlCharactersAreReplaced) {
  const PlotSize size = Ascii(60, 5);
  query::Series series(0, 1, size.dot_columns());
  series.Add(0, 1);
  EXPECT_THAT(DrawPlot("evil\x1b[2J", series, size, {}), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace ranklog::cli
