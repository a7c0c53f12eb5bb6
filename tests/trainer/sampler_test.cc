#include "trainer/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace ranklog::trainer {
namespace {

using ::testing::ElementsAreArray;
using ::testing::Ne;

std::vector<size_t> Upto(size_t size) {
  std::vector<size_t> all(size);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(EpochSamplerTest, DealsEverySampleOnceAnEpochOverTheRanks) {  // S28
  constexpr size_t kSize = 60;
  constexpr int kRanks = 3;
  std::vector<std::unique_ptr<EpochSampler>> samplers;
  for (int rank = 0; rank < kRanks; ++rank)
    samplers.push_back(std::make_unique<EpochSampler>(kSize, kRanks, rank, 1));
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<size_t> seen;
    for (auto& sampler : samplers) {
      const std::vector<size_t> share = sampler->Next(kSize / kRanks);
      seen.insert(seen.end(), share.begin(), share.end());
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_THAT(seen, ElementsAreArray(Upto(kSize))) << "epoch " << epoch;
  }
}

TEST(EpochSamplerTest, LeavesOutLessThanOnePerRankAndRepeatsNone) {
  std::multiset<size_t> seen;
  for (int rank = 0; rank < 4; ++rank) {
    EpochSampler sampler(23, 4, rank, 1);
    for (const size_t sample : sampler.Next(5)) seen.insert(sample);
  }
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_EQ(std::set<size_t>(seen.begin(), seen.end()).size(), 20u);
}

TEST(EpochSamplerTest, ABatchMayReachIntoTheNextEpoch) {
  EpochSampler whole(10, 1, 0, 1), parts(10, 1, 0, 1);
  std::vector<size_t> expected = whole.Next(10);
  for (const size_t sample : whole.Next(10)) expected.push_back(sample);
  std::vector<size_t> got;
  for (int i = 0; i < 5; ++i) {
    for (const size_t sample : parts.Next(4)) got.push_back(sample);
  }
  EXPECT_THAT(got, ElementsAreArray(expected));
  EXPECT_EQ(parts.epoch(), 1u);
}

TEST(EpochSamplerTest, ShufflesAnewByEpochAndBySeed) {
  EpochSampler one(100, 1, 0, 1), same(100, 1, 0, 1), other(100, 1, 0, 2);
  const std::vector<size_t> first = one.Next(100);
  EXPECT_THAT(first, Ne(Upto(100)));
  EXPECT_THAT(same.Next(100), ElementsAreArray(first));
  EXPECT_THAT(other.Next(100), Ne(first));
  EXPECT_THAT(one.Next(100), Ne(first));
}

}  // namespace
}  // namespace ranklog::trainer
