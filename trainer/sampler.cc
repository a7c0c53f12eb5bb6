#include "trainer/sampler.h"

#include <torch/data/samplers/distributed.h>

namespace ranklog::trainer {

EpochSampler::EpochSampler(size_t size, int world_size, int rank, uint64_t seed)
    : seed_(seed),
      samples_per_epoch_(static_cast<int64_t>(size) / world_size),
      sampler_(std::make_unique<torch::data::samplers::DistributedRandomSampler>(
          size, world_size, rank,
          /*allow_duplicates=*/false)) {
  StartEpoch(0);
}

EpochSampler::~EpochSampler() = default;

void EpochSampler::StartEpoch(size_t epoch) {
  epoch_ = epoch;
  // LibTorch's sampler shuffles by 32 bits of its epoch and knows no seed: spread both over them.
  const uint64_t key = (seed_ * 0x9e3779b97f4a7c15u >> 16) + epoch;
  sampler_->set_epoch(static_cast<uint32_t>(key));
  sampler_->reset();  // only here does an epoch take effect
}

int64_t EpochSampler::batches_per_epoch(int64_t batch) const {
  return (samples_per_epoch_ + batch - 1) / batch;
}

std::vector<size_t> EpochSampler::Next(size_t count) {
  std::vector<size_t> samples;
  samples.reserve(count);
  while (samples.size() < count) {
    const auto some = sampler_->next(count - samples.size());
    if (some.has_value()) {
      samples.insert(samples.end(), some->begin(), some->end());
    } else {
      StartEpoch(epoch_ + 1);
    }
  }
  return samples;
}

}  // namespace ranklog::trainer
