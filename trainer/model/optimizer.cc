#include "trainer/model/optimizer.h"

#include <ATen/ATen.h>

#include <memory>
#include <tuple>
#include <utility>

namespace ranklog::trainer {

torch::optim::AdamW MakeAdamW(const std::vector<at::Tensor>& parameters, double weight_decay) {
  std::vector<at::Tensor> matrices, vectors;
  for (const at::Tensor& parameter : parameters) {
    (parameter.dim() >= 2 ? matrices : vectors).push_back(parameter);
  }
  auto options = torch::optim::AdamWOptions().betas(std::make_tuple(0.9, 0.95));
  const auto group = [&](std::vector<at::Tensor> members, double decay) {
    options.weight_decay(decay);
    return torch::optim::OptimizerParamGroup(std::move(members),
                                             std::make_unique<torch::optim::AdamWOptions>(options));
  };
  return torch::optim::AdamW(
      {group(std::move(matrices), weight_decay), group(std::move(vectors), 0)}, options);
}

void SetLearningRate(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

at::Tensor ClipGradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& parameter : parameters) norms.push_back(parameter.grad().norm());
  const at::Tensor norm = at::stack(norms).norm();
  if (max_norm > 0) {
    // The small term avoids a division by 0; it changes a clipped norm by a millionth.
    const at::Tensor scale = (max_norm / (norm + 1e-6)).clamp_max(1.0);
    for (const at::Tensor& parameter : parameters) parameter.grad().mul_(scale);
  }
  return norm;
}

void ZeroGradients(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.grad().zero_();
  }
}

}  // namespace ranklog::trainer
