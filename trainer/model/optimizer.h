#ifndef TRAINER_MODEL_OPTIMIZER_H_
#define TRAINER_MODEL_OPTIMIZER_H_

#include <ATen/core/Tensor.h>
#include <torch/optim/adamw.h>

#include <vector>

namespace ranklog::trainer {

// AdamW with GPT's usual settings, betas of 0.9 and 0.95. It has two parameter groups: matrices
// decay, biases and norms do not.
torch::optim::AdamW MakeAdamW(const std::vector<at::Tensor>& parameters, double weight_decay);

// Sets the learning rate of all parameter groups.
void SetLearningRate(torch::optim::Optimizer& optimizer, double lr);

// A step of an optimizer of MakeAdamW(). On a GPU, StepAtOnce() takes it after the first one.
void Step(torch::optim::AdamW& optimizer);

// Updates all tensors of a group by few kernels, as Python's AdamW(fused=True). The step of
// torch::optim::AdamW starts ten kernels for each tensor, a tenth of a GPU's time for GPT-2. Returns
// false, without an update, before the first step, which makes the moments, if a parameter has no
// gradient, and with LibTorch 1.13. All parameters of a group must have taken the same steps.
bool StepAtOnce(torch::optim::AdamW& optimizer);

// Scales the gradients down to an L2 norm of `max_norm` over all of them. 0: no scaling. Returns
// the norm before scaling, a float32 scalar on the parameters' device. Unlike
// torch::nn::utils::clip_grad_norm_ it reads no value, so it does not wait for a GPU.
at::Tensor ClipGradients(const std::vector<at::Tensor>& parameters, double max_norm);

// Works in place: the gradients are views into the buckets of the all-reduce.
void ZeroGradients(const std::vector<at::Tensor>& parameters);

}  // namespace ranklog::trainer

#endif  // TRAINER_MODEL_OPTIMIZER_H_
