#include "trainer/data/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace ranklog::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::Ne;

// The samples of an epoch, rank by rank.
std::vector<std::vector<size_t>> Deal(SamplerOptions options, int64_t epoch = 0) {
  std::vector<std::vector<size_t>> shares(options.world_size);
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    EpochSampler sampler(options);
    sampler.Seek({epoch, 0});
    while (sampler.position().epoch == epoch) {
      for (const size_t sample : sampler.Next()) shares[options.rank].push_back(sample);
    }
  }
  return shares;
}

std::map<size_t, int> Count(const std::vector<std::vector<size_t>>& shares) {
  std::map<size_t, int> counts;
  for (const std::vector<size_t>& share : shares) {
    for (const size_t sample : share) ++counts[sample];
  }
  return counts;
}

std::vector<size_t> Take(EpochSampler& sampler, int batches) {
  std::vector<size_t> samples;
  for (int i = 0; i < batches; ++i) {
    for (const size_t sample : sampler.Next()) samples.push_back(sample);
  }
  return samples;
}

// Sizes that ranks and batches divide, and sizes that they do not divide, down to a single sample.
std::vector<SamplerOptions> ManyOptions() {
  std::vector<SamplerOptions> all;
  for (const size_t size : {1, 2, 7, 23, 60, 61, 1000}) {
    for (const int world_size : {1, 2, 3, 5}) {
      for (const size_t batch : {1, 2, 7, 16})
        all.push_back({.size = size, .world_size = world_size, .seed = 3, .batch = batch});
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    all.push_back({.size = 1 + random() % 500,
                   .world_size = static_cast<int>(1 + random() % 9),
                   .seed = random(),
                   .batch = 1 + random() % 20});
  }
  return all;
}

std::string Name(const SamplerOptions& options) {
  return std::to_string(options.size) + " samples, " + std::to_string(options.world_size) +
         " ranks, batch " + std::to_string(options.batch) + ", seed " +
         std::to_string(options.seed);
}

TEST(EpochSamplerTest, PaddedEpochCoversEverySampleEvenly) {  // S28
  for (const SamplerOptions& options : ManyOptions()) {
    SCOPED_TRACE(Name(options));
    const size_t unit = options.world_size * options.batch;
    const size_t dealt = (options.size + unit - 1) / unit * unit;
    for (int64_t epoch : {0, 1, 5}) {
      const auto shares = Deal(options, epoch);
      for (const std::vector<size_t>& share : shares)
        EXPECT_EQ(share.size(), dealt / options.world_size);
      const std::map<size_t, int> counts = Count(shares);
      ASSERT_EQ(counts.size(), options.size);
      EXPECT_EQ(counts.rbegin()->first, options.size - 1);
      // The padding repeats samples as evenly as possible.
      const auto repeats = static_cast<int>(dealt / options.size);
      for (const auto& [sample, count] : counts)
        EXPECT_THAT(count, ::testing::AnyOf(repeats, repeats + 1));
    }
  }
}

TEST(EpochSamplerTest, DropLastOmitsOnlyIncompleteBatch) {  // S28
  for (SamplerOptions options : ManyOptions()) {
    const size_t unit = options.world_size * options.batch;
    if (options.size < unit) continue;
    SCOPED_TRACE(Name(options));
    options.drop_last = true;
    const auto shares = Deal(options, 1);
    const std::map<size_t, int> counts = Count(shares);
    EXPECT_EQ(counts.size(), options.size / unit * unit);
    for (const auto& [sample, count] : counts) EXPECT_EQ(count, 1) << sample;
  }
}

TEST(EpochSamplerTest, BatchesPerEpochMatchesDealtBatches) {
  for (const SamplerOptions& options : ManyOptions()) {
    EXPECT_EQ(EpochSampler(options).batches_per_epoch() * options.batch, Deal(options)[0].size())
        << Name(options);
  }
}

// From torch.utils.data.distributed.DistributedSampler of PyTorch 1.13.1, set_epoch() called.
TEST(EpochSamplerTest, BatchSizeOneMatchesDistributedSampler) {
  const SamplerOptions ten = {.size = 10, .world_size = 3, .seed = 0};
  EXPECT_THAT(Deal(ten, 0), ElementsAre(ElementsAre(4, 5, 0, 2), ElementsAre(1, 3, 8, 4),
                                        ElementsAre(7, 9, 6, 1)));
  EXPECT_THAT(
      Deal({.size = 10, .world_size = 3, .seed = 7}, 2),
      ElementsAre(ElementsAre(0, 7, 9, 3), ElementsAre(5, 6, 1, 0), ElementsAre(8, 2, 4, 5)));
  EXPECT_THAT(Deal({.size = 10, .world_size = 3, .seed = 1, .drop_last = true}, 1),
              ElementsAre(ElementsAre(8, 5, 0), ElementsAre(7, 6, 4), ElementsAre(1, 9, 2)));
  EXPECT_THAT(
      Deal({.size = 2, .world_size = 5, .seed = 1}),
      ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(1), ElementsAre(0), ElementsAre(1)));
}

TEST(EpochSamplerTest, RanksSplitTheGlobalBatch) {
  EpochSampler whole({.size = 101, .batch = 12});
  std::vector<EpochSampler> parts;
  for (int rank = 0; rank < 3; ++rank)
    parts.emplace_back(SamplerOptions{.size = 101, .world_size = 3, .rank = rank, .batch = 4});
  for (int step = 0; step < 20; ++step) {  // past the end of an epoch
    const std::vector<size_t> expected = whole.Next();
    std::multiset<size_t> got;
    for (EpochSampler& part : parts) {
      for (const size_t sample : part.Next()) got.insert(sample);
    }
    EXPECT_EQ(got, std::multiset<size_t>(expected.begin(), expected.end())) << step;
  }
}

TEST(EpochSamplerTest, ShuffleDependsOnEpochAndSeed) {
  const SamplerOptions options = {.size = 100, .seed = 1};
  std::vector<size_t> sorted(100);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_THAT(Deal(options)[0], Ne(sorted));
  EXPECT_EQ(Deal(options), Deal(options));
  EXPECT_THAT(Deal(options, 1), Ne(Deal(options, 0)));
  EXPECT_THAT(Deal({.size = 100, .seed = 2}), Ne(Deal(options)));
}

TEST(EpochSamplerTest, ResumesFromEveryPosition) {  // S31
  for (const bool drop_last : {false, true}) {
    const SamplerOptions options = {
        .size = 50, .world_size = 2, .rank = 1, .seed = 9, .batch = 4, .drop_last = drop_last};
    EpochSampler whole(options);
    for (int taken = 0; taken < 30; ++taken) {
      EpochSampler resumed(options);
      resumed.Seek(whole.position());
      EpochSampler rest = whole;
      EXPECT_EQ(Take(resumed, 20), Take(rest, 20)) << taken;
      whole.Next();
    }
  }
}

TEST(EpochSamplerTest, PositionCountsSamplesOfTheRank) {
  EpochSampler sampler({.size = 20, .world_size = 2, .batch = 4});
  EXPECT_EQ(sampler.position(), (SamplerPosition{0, 0}));
  sampler.Next();
  EXPECT_EQ(sampler.position(), (SamplerPosition{0, 4}));
  Take(sampler, 2);
  EXPECT_EQ(sampler.position(), (SamplerPosition{1, 0}));
}

}  // namespace
}  // namespace ranklog::trainer
