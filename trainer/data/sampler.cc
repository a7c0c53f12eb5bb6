#include "trainer/data/sampler.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cassert>

namespace ranklog::trainer {

EpochSampler::EpochSampler(const SamplerOptions& options) : options_(options) {
  assert(options.size > 0 && options.batch > 0 && options.rank < options.world_size);
  assert(batches_per_epoch() > 0);
}

int64_t EpochSampler::batches_per_epoch() const {
  const size_t unit = options_.world_size * options_.batch;
  const size_t spare = options_.drop_last ? 0 : unit - 1;
  return static_cast<int64_t>((options_.size + spare) / unit);
}

// Python: torch.randperm(size, generator=g) with g.manual_seed(seed + epoch), and its head again.
void EpochSampler::Shuffle() {
  const at::Tensor order =
      at::randperm(static_cast<int64_t>(options_.size),
                   at::detail::createCPUGenerator(options_.seed + position_.epoch), at::kLong);
  const int64_t* const samples = order.data_ptr<int64_t>();
  share_.resize(batches_per_epoch() * options_.batch);
  for (size_t i = 0; i < share_.size(); ++i) {
    share_[i] = samples[(i * options_.world_size + options_.rank) % options_.size];
  }
}

std::vector<size_t> EpochSampler::Next() {
  position_ = position();
  if (position_.next == 0 || share_.empty()) Shuffle();
  const auto begin = share_.begin() + position_.next;
  position_.next += options_.batch;
  return {begin, begin + options_.batch};
}

SamplerPosition EpochSampler::position() const {
  const int64_t share = batches_per_epoch() * static_cast<int64_t>(options_.batch);
  return position_.next < share ? position_ : SamplerPosition{position_.epoch + 1, 0};
}

void EpochSampler::Seek(SamplerPosition position) {
  assert(position.next % options_.batch == 0);
  position_ = position;
  share_.clear();
}

}  // namespace ranklog::trainer
