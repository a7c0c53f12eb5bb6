#ifndef TRAINER_DATA_SAMPLER_H_
#define TRAINER_DATA_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ranklog::trainer {

// Position of a sampler: each rank has received `next` samples of `epoch`.
struct SamplerPosition {
  int64_t epoch = 0;
  int64_t next = 0;
  bool operator==(const SamplerPosition&) const = default;
};

struct SamplerOptions {
  size_t size = 0;  // the samples are 0 .. size - 1; at least 1
  int world_size = 1;
  int rank = 0;  // 0 .. world_size - 1
  uint64_t seed = 1;
  size_t batch = 1;        // samples per rank
  bool drop_last = false;  // see EpochSampler; then `size` is at least world_size * batch
};

// Shards samples over the ranks, as PyTorch's DistributedSampler does. Seed and epoch determine the
// order of each epoch; each rank takes every world_size-th sample.
//
// All batches are full, so all ranks and micro-batches have the same weight. If world_size * batch
// does not divide the samples, the first samples of the epoch fill its last batch a second time.
// With drop_last, the remaining samples are skipped in this epoch; each epoch skips different ones.
// In both cases, world_size ranks with `batch` use the same samples in a step as one rank with
// world_size * batch. With batch = 1 the order is that of Python.
//
// Not thread-safe.
class EpochSampler {
 public:
  explicit EpochSampler(const SamplerOptions& options);

  // The next `batch` samples of this rank.
  std::vector<size_t> Next();

  int64_t batches_per_epoch() const;

  // The start of the next batch, for Seek() on a sampler with the same options.
  SamplerPosition position() const;
  void Seek(SamplerPosition position);

 private:
  void Shuffle();

  const SamplerOptions options_;
  SamplerPosition position_;    // `next` may be at the epoch's end
  std::vector<int64_t> share_;  // of this rank, in position_.epoch; empty: not shuffled yet
};

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_SAMPLER_H_
