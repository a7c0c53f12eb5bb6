#include "trainer/plan.h"

#include <algorithm>

namespace ranklog::trainer {
namespace {

constexpr int64_t kValidateEvery = 50;  // steps
constexpr int64_t kSaveEvery = 500;     // steps

int64_t DefaultWarmup(int64_t steps) {
  return std::min(std::clamp<int64_t>(steps / 10, 20, 200), steps / 2);
}

}  // namespace

int64_t Plan::MicroBatches(int64_t step) const {
  // Batches of this epoch before the step.
  const int64_t taken = (step - 1) % steps_per_epoch * grad_accum;
  return std::min(grad_accum, batches_per_epoch - taken);
}

bool Plan::Validates(int64_t step) const {
  return val_every > 0 && (step % val_every == 0 || step == steps);
}

SamplerOptions MakeSamplerOptions(const Options& options, const Corpus& corpus, int world_size,
                                  int rank) {
  return {.size = WindowCount(corpus.train, options.seq_len),
          .world_size = world_size,
          .rank = rank,
          .seed = options.seed,
          .batch = static_cast<size_t>(options.batch_size),
          .drop_last = options.drop_last};
}

Plan MakePlan(const Options& options, const Corpus& corpus, int world_size) {
  const EpochSampler sampler(MakeSamplerOptions(options, corpus, world_size, /*rank=*/0));
  return MakePlan(options, sampler.batches_per_epoch());
}

Plan MakePlan(const Options& options, int64_t batches_per_epoch) {
  Plan plan{.batches_per_epoch = batches_per_epoch, .grad_accum = options.grad_accum};
  plan.steps_per_epoch = (batches_per_epoch + plan.grad_accum - 1) / plan.grad_accum;
  plan.steps = options.epochs > 0 ? options.epochs * plan.steps_per_epoch : options.steps;
  plan.warmup_steps = options.warmup_steps.value_or(DefaultWarmup(plan.steps));
  plan.val_every =
      options.val_every.value_or(options.epochs > 0 ? plan.steps_per_epoch : kValidateEvery);
  plan.save_every =
      options.save_every.value_or(options.epochs > 0 ? plan.steps_per_epoch : kSaveEvery);
  return plan;
}

}  // namespace ranklog::trainer
