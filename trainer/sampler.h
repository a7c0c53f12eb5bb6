#ifndef TRAINER_SAMPLER_H_
#define TRAINER_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace torch::data::samplers {
class DistributedRandomSampler;
}

namespace ranklog::trainer {

// Deals the samples 0 .. size-1 to the ranks: each epoch every sample goes to one rank, in an order
// shuffled by seed and epoch, the same on all ranks. What does not divide by the ranks sits the
// epoch out (another part each time), so all ranks stay in step. An epoch's end falls inside a
// batch where it does not divide: no sample is dropped, and all batches are full.
//
// Not thread-safe.
class EpochSampler {
 public:
  // size >= world_size; 0 <= rank < world_size.
  EpochSampler(size_t size, int world_size, int rank, uint64_t seed);
  ~EpochSampler();

  // The next `count` samples of this rank.
  std::vector<size_t> Next(size_t count);

  // How many batches of this rank begin in an epoch.
  int64_t batches_per_epoch(int64_t batch) const;

  // Of the last sample that Next() gave, from 0.
  size_t epoch() const { return epoch_; }

 private:
  void StartEpoch(size_t epoch);

  const uint64_t seed_;
  const int64_t samples_per_epoch_;  // of this rank
  size_t epoch_ = 0;
  std::unique_ptr<torch::data::samplers::DistributedRandomSampler> sampler_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_SAMPLER_H_
