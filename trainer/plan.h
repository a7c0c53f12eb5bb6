#ifndef TRAINER_PLAN_H_
#define TRAINER_PLAN_H_

#include <cstdint>

#include "trainer/data/data.h"
#include "trainer/data/sampler.h"
#include "trainer/options.h"

namespace ranklog::trainer {

// The number of steps of a training, and the ends of its epochs. The same on all ranks.
//
// A step takes Options::grad_accum batches of each rank. No step reaches into the next epoch: the
// last step of an epoch takes the remaining batches.
struct Plan {
  int64_t batches_per_epoch = 1;  // of each rank
  int64_t grad_accum = 1;
  int64_t steps_per_epoch = 1;
  int64_t steps = 1;  // in all
  int64_t warmup_steps = 0;
  int64_t val_every = 0;   // steps; 0: never
  int64_t save_every = 0;  // steps; 0: never

  // Of step 1 .. steps:
  int64_t MicroBatches(int64_t step) const;  // 1 .. grad_accum
  // After the step, as a fraction: 1.5 is the middle of the second epoch.
  double Epoch(int64_t step) const { return static_cast<double>(step) / steps_per_epoch; }
  bool Validates(int64_t step) const;
};

// The sampler of `rank` for the samples of `corpus`.
SamplerOptions MakeSamplerOptions(const Options& options, const Corpus& corpus, int world_size,
                                  int rank);

Plan MakePlan(const Options& options, const Corpus& corpus, int world_size);
// `batches_per_epoch`: of each rank, at least 1.
Plan MakePlan(const Options& options, int64_t batches_per_epoch);

}  // namespace ranklog::trainer

#endif  // TRAINER_PLAN_H_
