#include "service/ui/curves/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ranklog::ui {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

Point At(int64_t x, double value) { return {x, x * 1000, value}; }

auto Is(int64_t x, double value) { return AllOf(Field(&Point::x, x), Field(&Point::value, value)); }

TEST(CurveTest, KeepsEachOfFewPoints) {
  Curve curve(10);
  for (int x = 0; x < 5; ++x) curve.Add(At(x, x * x));
  EXPECT_THAT(curve.All(), ElementsAre(Is(0, 0), Is(1, 1), Is(2, 4), Is(3, 9), Is(4, 16)));
}

TEST(CurveTest, PeaksSurviveThinning) {
  Curve curve(100);
  for (int x = 0; x < 1'000'000; ++x) {
    curve.Add(At(x, x == 123'456 ? 1000.0 : x == 777'777 ? -1000.0 : std::sin(x)));
  }
  const std::vector<Point> points = curve.All();
  EXPECT_THAT(points, SizeIs(Le(201u)));
  EXPECT_GE(points.size(), 50u);
  EXPECT_THAT(points, Contains(Is(123'456, 1000)));
  EXPECT_THAT(points, Contains(Is(777'777, -1000)));
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end(),
                             [](const Point& a, const Point& b) { return a.x < b.x; }));
}

TEST(CurveTest, LastPointIsAlwaysThere) {
  Curve curve(4);
  for (int x = 0; x <= 1000; ++x) curve.Add(At(x, x % 7));
  EXPECT_THAT(curve.All().back(), Is(1000, 1000 % 7));
  EXPECT_THAT(curve.last(), Is(1000, 1000 % 7));
}

TEST(CurveTest, FromReturnsTheBucketOfXAndLaterOnes) {
  Curve curve(1000);
  for (int x = 0; x < 100; ++x) curve.Add(At(x, x));
  EXPECT_THAT(curve.From(98), ElementsAre(Is(98, 98), Is(99, 99)));
  EXPECT_THAT(curve.From(100), IsEmpty());
}

TEST(CurveTest, ReaderThatJoinsPartsHasEveryPeak) {
  Curve curve(16);
  std::vector<Point> page;
  for (int x = 0; x < 5000; ++x) {
    curve.Add(At(x, x == 2500 ? 9 : 1.0 / (x + 1)));
    if (x % 37 != 0) continue;
    const std::vector<Point> more = curve.From(page.empty() ? 0 : page.back().x);
    while (!page.empty() && !more.empty() && page.back().x >= more.front().x) page.pop_back();
    page.insert(page.end(), more.begin(), more.end());
  }
  EXPECT_THAT(page, Contains(Is(2500, 9)));
}

TEST(CurveTest, NotFiniteValuesAreCountedAndLeaveAGap) {
  Curve curve(10);
  curve.Add(At(0, 1));
  curve.Add(At(1, std::numeric_limits<double>::quiet_NaN()));
  curve.Add(At(2, std::numeric_limits<double>::infinity()));
  curve.Add(At(3, 2));
  EXPECT_EQ(curve.count(), 2u);
  EXPECT_EQ(curve.not_finite().nan, 1u);
  EXPECT_EQ(curve.not_finite().inf, 1u);
  EXPECT_EQ(curve.not_finite().count(), 2u);
  const std::vector<Point> points = curve.All();
  ASSERT_THAT(points, SizeIs(4));
  EXPECT_TRUE(std::isnan(points[1].value));
  EXPECT_EQ(curve.max(), 2);
}

TEST(CurveTest, FirstNotFiniteValueOfABucketSurvivesThinning) {
  Curve curve(100);
  for (int x = 0; x < 100'000; ++x) {
    curve.Add(At(x, x == 40'000 || x == 40'001 ? -std::numeric_limits<double>::infinity()
                    : x >= 70'000              ? std::numeric_limits<double>::quiet_NaN()
                                               : 1.0));
  }
  const std::vector<Point> marks = curve.NotFiniteFrom(0);
  EXPECT_THAT(marks, SizeIs(Le(101u)));
  EXPECT_THAT(marks[0], Is(40'000, -std::numeric_limits<double>::infinity()));
  EXPECT_EQ(marks[1].x, 70'000);
  EXPECT_THAT(curve.NotFiniteFrom(99'999), SizeIs(1));
  EXPECT_EQ(curve.not_finite().minus_inf, 2u);
}

TEST(CurveTest, NumberReplacesAGapInItsBucket) {
  Curve curve(1);
  curve.Add(At(0, std::numeric_limits<double>::quiet_NaN()));
  curve.Add(At(1, 5));
  EXPECT_THAT(curve.All(), ElementsAre(Is(1, 5)));
}

}  // namespace
}  // namespace ranklog::ui
