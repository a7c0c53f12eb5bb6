#ifndef TRAINER_OPTIMIZER_H_
#define TRAINER_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "trainer/model.h"

namespace torch::optim {
class AdamW;
}

namespace ranklog::trainer {

// AdamW with GPT's usual settings (betas 0.9 and 0.95): matrices decay, biases and norms do not.
class Optimizer {
 public:
  Optimizer(const std::vector<Parameter>& parameters, double weight_decay);
  ~Optimizer();

  // Scales the gradients down to an L2 norm of `max_norm` over all of them (0: leaves them).
  // Returns the norm before that, a float32 scalar on the parameters' device: reading it is left to
  // the caller.
  at::Tensor ClipGradients(double max_norm);

  void Step(double lr);

  // In place: the gradients are views into the buckets that go over the network.
  void ZeroGradients();

 private:
  std::vector<at::Tensor> values_;
  std::unique_ptr<torch::optim::AdamW> adamw_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_OPTIMIZER_H_
