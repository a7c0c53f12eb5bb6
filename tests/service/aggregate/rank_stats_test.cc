#include "service/aggregate/join/rank_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

namespace ranklog::aggregate {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

RankStats Of(const std::vector<double>& values, uint32_t first_rank = 0) {
  RankStats stats;
  for (uint32_t i = 0; i < values.size(); ++i) stats.Add(first_rank + i, values[i]);
  return stats;
}

// Computes in two passes, in long double, over the values that are not NaN.
void ExpectMatchesNaive(const RankStats& stats, const std::vector<double>& values) {
  long double sum = 0;
  uint32_t count = 0;
  for (double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  ASSERT_EQ(stats.count, count);
  EXPECT_EQ(stats.not_finite, values.size() - count);
  if (count == 0) return;
  const long double mean = sum / count;
  long double squares = 0;
  uint32_t argmin = ~0u;
  uint32_t argmax = ~0u;
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    squares += (values[i] - mean) * (values[i] - mean);
    if (argmin == ~0u || values[i] < values[argmin]) argmin = i;
    if (argmax == ~0u || values[i] > values[argmax]) argmax = i;
  }
  const double std = static_cast<double>(std::sqrt(squares / count));
  EXPECT_NEAR(stats.mean, static_cast<double>(mean), 1e-9 * (1 + std::abs(stats.mean)));
  EXPECT_NEAR(stats.std(), std, 1e-6 * (1 + std));
  EXPECT_EQ(stats.argmin, argmin);
  EXPECT_EQ(stats.argmax, argmax);
  EXPECT_EQ(stats.min, values[argmin]);
  EXPECT_EQ(stats.max, values[argmax]);
}

TEST(RankStatsTest, AgreesWithTheNaiveFormulas) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> values(random() % 64);
    const double offset = round % 3 == 0 ? 1e6 : 0;  // large compared with the spread
    for (double& value : values) {
      value = random() % 8 == 0 ? kNaN : offset + std::normal_distribution<double>(0, 3)(random);
      if (random() % 4 == 0) value = std::round(value);  // ties
    }
    ExpectMatchesNaive(Of(values), values);
  }
}

TEST(RankStatsTest, AllNaNValuesGiveNaN) {
  const RankStats stats = Of({kNaN, kNaN});
  EXPECT_EQ(stats.count, 0u);
  EXPECT_EQ(stats.not_finite, 2u);
  EXPECT_TRUE(std::isnan(stats.std()));
}

TEST(RankStatsTest, InfinitiesAreIgnoredLikeNaN) {
  for (const std::vector<double>& values :
       {std::vector<double>{1, 2, kInf}, {1, 2, -kInf}, {1, 2, kNaN}}) {
    const RankStats stats = Of(values);
    EXPECT_EQ(stats.not_finite, 1u);
    EXPECT_EQ(stats.mean, 1.5);
    EXPECT_EQ(stats.std(), 0.5);
    EXPECT_EQ(stats.min, 1);
    EXPECT_EQ(stats.max, 2);
    EXPECT_EQ(stats.argmin, 0u);
    EXPECT_EQ(stats.argmax, 1u);
  }
  const RankStats none = Of({kInf, -kInf, kNaN});
  EXPECT_EQ(none.count, 0u);
  EXPECT_TRUE(std::isnan(none.std()));
  EXPECT_EQ(none.not_finite, 3u);
}

TEST(RankStatsTest, LowestRankWinsTies) {
  RankStats stats;
  stats.Add(3, 1.0);
  stats.Add(1, 1.0);
  stats.Add(2, 1.0);
  EXPECT_EQ(stats.argmin, 1u);
  EXPECT_EQ(stats.argmax, 1u);
  EXPECT_EQ(stats.std(), 0);
}

TEST(RankStatsTest, HugeValuesDoNotOverflow) {
  constexpr double kMax = std::numeric_limits<double>::max();
  for (const auto& [values, mean, std] :
       {std::tuple<std::vector<double>, double, double>{{kMax, -kMax}, 0, kMax},
        {{kMax, kMax, kMax}, kMax, 0},
        {{-kMax, kMax, -kMax, kMax}, 0, kMax},
        {{kMax, 0}, kMax / 2, kMax / 2},
        {{1, 1e200, 1}, 1e200 / 3, 1e200 * std::sqrt(2.0) / 3},
        {{1e308, 1.5e308}, 1.25e308, 0.25e308},
        {{-1e160, 1e160, 0.5}, 0, 1e160 * std::sqrt(2.0 / 3)}}) {
    const RankStats stats = Of(values);
    const double unit = std::max(std::abs(stats.min), std::abs(stats.max));
    EXPECT_NEAR(stats.mean / unit, mean / unit, 1e-15);
    EXPECT_NEAR(stats.std() / unit, std / unit, 1e-15);
  }
}

// Their squares are 0.
TEST(RankStatsTest, SmallestNumbersHaveNonzeroStd) {
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(Of({0, 2 * kTiny}).std(), kTiny);
  EXPECT_EQ(Of({0, 2 * kTiny}).mean, kTiny);
  EXPECT_NEAR(Of({1e-200, 3e-200}).std() / 1e-200, 1, 1e-15);
  EXPECT_NEAR(Of({1e-200, 3e-200, 1, 3}).std(), Of({0, 0, 1, 3}).std(), 1e-15);
  EXPECT_NEAR(Of({1, 3, 1e-200, 3e-200}).std(), Of({1, 3, 0, 0}).std(), 1e-15);
}

TEST(RankStatsTest, ScaledFiguresMatchLongDouble) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    // Either all values have one magnitude, or any.
    std::uniform_int_distribution<int> size(-1060, 1023);
    const int common = size(random);
    std::vector<double> values(1 + random() % 9);
    for (double& value : values) {
      const double fraction = std::uniform_real_distribution<double>(-1, 1)(random);
      value = std::ldexp(fraction, round % 2 == 0 ? common : size(random));
    }
    long double sum = 0;
    for (double value : values) sum += value;
    const long double mean = sum / values.size();
    long double squares = 0;
    for (double value : values) squares += (value - mean) * (value - mean);
    const long double std = std::sqrt(squares / values.size());
    // The last bit of the smallest numbers is large relative to them.
    constexpr double kUlps = 8 * std::numeric_limits<double>::denorm_min();
    const RankStats stats = Of(values);
    const double unit = std::max(std::abs(stats.min), std::abs(stats.max));
    EXPECT_NEAR(stats.mean, static_cast<double>(mean), 1e-14 * unit + kUlps);
    EXPECT_NEAR(stats.std(), static_cast<double>(std), 1e-14 * unit + kUlps);
  }
}

}  // namespace
}  // namespace ranklog::aggregate
