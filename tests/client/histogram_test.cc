#include "ranklog/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "client/base/text/json.h"
#include "ranklog/run.h"

namespace ranklog {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<double> kSamples = {1, 2, 2, 3, 4.5, -1, 0.25};

std::string TextOf(const Value& value) {
  std::string json;
  EXPECT_EQ(internal::AppendJson(value.field(), &json), "");
  return json;
}

TEST(HistogramTest, IsTheRowEntryOfWandbsSdk) {
  EXPECT_EQ(TextOf(Histogram(kSamples, 4)),
            R"({"_type":"histogram","values":[2,1,3,1],"bins":[-1,0.375,1.75,3.125,4.5]})");
}

// The figures are those of numpy 2.4.
TEST(HistogramTest, CountsLikeNumpy) {
  const Histogram ten(kSamples, 10);
  EXPECT_THAT(ten.counts(), ElementsAre(1, 0, 1, 1, 0, 2, 0, 1, 0, 1));
  EXPECT_THAT(ten.edges(),
              ElementsAre(-1.0, -0.44999999999999996, 0.10000000000000009, 0.6500000000000001,
                          1.2000000000000002, 1.75, 2.3000000000000003, 2.8500000000000005,
                          3.4000000000000004, 3.95, 4.5));
  std::vector<double> many;
  for (int i = 0; i < 1000; ++i) many.push_back(i * 7919 % 1000 / 7.0);
  const Histogram usual(many);
  ASSERT_THAT(usual.counts(), SizeIs(64));
  EXPECT_THAT(usual.edges(), SizeIs(65));
  const std::vector<int64_t> first(usual.counts().begin(), usual.counts().begin() + 12);
  EXPECT_THAT(first, ElementsAre(16, 16, 15, 16, 16, 15, 16, 15, 16, 16, 15, 16));
  EXPECT_EQ(usual.edges()[1], 2.2299107142857144);
  EXPECT_EQ(usual.edges()[63], 140.484375);
}

TEST(HistogramTest, EqualSamplesAreInTheMiddle) {
  const Histogram equal(std::vector<float>{5, 5}, 2);
  EXPECT_THAT(equal.counts(), ElementsAre(0, 2));
  EXPECT_THAT(equal.edges(), ElementsAre(4.5, 5, 5.5));
}

TEST(HistogramTest, NoSamplesAreNoCounts) {
  for (const std::vector<double>& samples : {std::vector<double>{}, {NAN, kInfinity}}) {
    const Histogram none(samples, 2);
    EXPECT_THAT(none.counts(), ElementsAre(0, 0));
    EXPECT_THAT(none.edges(), ElementsAre(0, 0.5, 1));
  }
}

TEST(HistogramTest, LeavesOutNanAndInfinities) {
  const Histogram histogram(std::vector<float>{NAN, 0, 1, INFINITY, -INFINITY}, 2);
  EXPECT_THAT(histogram.counts(), ElementsAre(1, 1));
  EXPECT_THAT(histogram.edges(), ElementsAre(0, 0.5, 1));
}

TEST(HistogramTest, BringsBinsIntoTheRange) {
  EXPECT_THAT(Histogram(kSamples, 0).counts(), ElementsAre(7));
  EXPECT_THAT(Histogram(kSamples, 100'000).counts(), SizeIs(512));
}

// Widths that are infinite, 0, or too small for the number of bins.
TEST(HistogramTest, EveryFiniteSampleIsCounted) {
  constexpr double kMax = std::numeric_limits<double>::max();
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<double>> hard = {
      {-kMax, kMax, 0, 1},       {kMax, kMax},     {1e300, 1e300}, {0, kLeast, 0},
      {1, 1 + 1e-16, 1 - 1e-16}, {-kLeast, kLeast}};
  for (const std::vector<double>& samples : hard) {
    for (const size_t bins : {1, 3, 512}) {
      const Histogram histogram(samples, bins);
      const std::vector<int64_t>& counts = histogram.counts();
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}),
                static_cast<int64_t>(samples.size()));
      EXPECT_TRUE(std::is_sorted(histogram.edges().begin(), histogram.edges().end()));
      for (const double edge : histogram.edges()) EXPECT_TRUE(std::isfinite(edge));
    }
  }
}

TEST(HistogramTest, TakesGivenBins) {
  const std::array<uint32_t, 2> counts = {7, 9};
  const std::vector<float> edges = {0, 0.5, 4};
  EXPECT_EQ(TextOf(Histogram::FromCounts(counts, edges)),
            R"({"_type":"histogram","values":[7,9],"bins":[0,0.5,4]})");
}

TEST(HistogramTest, WrongGivenBinsAreNull) {
  const std::vector<int> counts = {1, 2};
  using Edges = std::vector<double>;
  for (const Edges& edges : {Edges{}, Edges{0, 1}, Edges{0, 1, 2, 3}, Edges{0, 2, 1}}) {
    const Histogram wrong = Histogram::FromCounts(counts, edges);
    EXPECT_THAT(wrong.counts(), IsEmpty());
    EXPECT_EQ(TextOf(wrong), "null");
  }
  const std::vector<int> many(513);
  EXPECT_EQ(TextOf(Histogram::FromCounts(many, Edges(514))), "null");
  EXPECT_NE(TextOf(Histogram::FromCounts(std::vector<int>(512), Edges(513))), "null");
}

TEST(HistogramTest, IsAMetricOfARow) {
  const std::vector<float> samples = {1, 2};
  const Value value = Histogram(samples);
  EXPECT_EQ(Metric("h", value).kind, RANKLOG_OBJECT);
  ranklog::Run none;
  EXPECT_FALSE(none.Log({{"loss", 0.5}, {"h", Histogram(samples)}}, 1)) << "but it compiles";
  EXPECT_FALSE(none.Summary({{"h", Histogram(samples, 8)}}));
}

}  // namespace
}  // namespace ranklog
