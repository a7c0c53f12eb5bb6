#include "service/aggregate/rank_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
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

// Two passes in long double over what is not NaN.
void ExpectMatchesNaive(const RankStats& stats, const std::vector<double>& values) {
  long double sum = 0;
  uint32_t count = 0;
  for (double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  ASSERT_EQ(stats.count, count);
  EXPECT_EQ(stats.nan_count, values.size() - count);
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
    const double offset = round % 3 == 0 ? 1e6 : 0;  // large against the spread
    for (double& value : values) {
      value = random() % 8 == 0 ? kNaN : offset + std::normal_distribution<double>(0, 3)(random);
      if (random() % 4 == 0) value = std::round(value);  // ties
    }
    ExpectMatchesNaive(Of(values), values);
  }
}

TEST(RankStatsTest, MergingPartsGivesTheWhole) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> values(random() % 40);
    for (double& value : values) value = random() % 5 == 0 ? kNaN : 1e4 + random() % 100;
    const size_t cut = values.empty() ? 0 : random() % values.size();
    RankStats stats = Of({values.begin(), values.begin() + static_cast<ptrdiff_t>(cut)});
    const RankStats rest = Of({values.begin() + static_cast<ptrdiff_t>(cut), values.end()},
                              static_cast<uint32_t>(cut));
    if (round % 2 == 0) {
      stats.Merge(rest);
      ExpectMatchesNaive(stats, values);
    } else {
      RankStats reversed = rest;
      reversed.Merge(stats);
      ExpectMatchesNaive(reversed, values);
    }
  }
}

TEST(RankStatsTest, IsNaNWhenAllValuesAre) {
  const RankStats stats = Of({kNaN, kNaN});
  EXPECT_EQ(stats.count, 0u);
  EXPECT_EQ(stats.nan_count, 2u);
  EXPECT_TRUE(std::isnan(stats.std()));
}

TEST(RankStatsTest, AnInfinityIsTheMeanAndTheExtreme) {
  for (const std::vector<double>& values :
       {std::vector<double>{kInf, 1, 2}, {1, kInf, 2}, {1, 2, kInf}, {kInf, 1, kInf}}) {
    const RankStats stats = Of(values);
    EXPECT_EQ(stats.mean, kInf);
    EXPECT_EQ(stats.max, kInf);
    EXPECT_EQ(stats.min, 1);
    EXPECT_TRUE(std::isnan(stats.std()));
  }
  RankStats merged = Of({1, 2});
  merged.Merge(Of({-kInf, 3}, 2));
  EXPECT_EQ(merged.mean, -kInf);
  EXPECT_EQ(merged.argmin, 2u);
  EXPECT_TRUE(std::isnan(merged.std()));
}

TEST(RankStatsTest, BothInfinitiesHaveNoMean) {
  const RankStats stats = Of({kInf, 1, -kInf});
  EXPECT_TRUE(std::isnan(stats.mean));
  EXPECT_EQ(stats.argmax, 0u);
  EXPECT_EQ(stats.argmin, 2u);
}

TEST(RankStatsTest, TheLowestRankWinsATieInAnyOrder) {
  RankStats stats;
  stats.Add(3, 1.0);
  stats.Add(1, 1.0);
  stats.Add(2, 1.0);
  EXPECT_EQ(stats.argmin, 1u);
  EXPECT_EQ(stats.argmax, 1u);
  EXPECT_EQ(stats.std(), 0);
}

}  // namespace
}  // namespace ranklog::aggregate
