#include "trainer/optimizer.h"

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>

#include <tuple>
#include <utility>

namespace ranklog::trainer {

Optimizer::Optimizer(const std::vector<Parameter>& parameters, double weight_decay) {
  std::vector<at::Tensor> decaying, others;
  for (const Parameter& parameter : parameters) {
    values_.push_back(parameter.value);
    (parameter.decays ? decaying : others).push_back(parameter.value);
  }
  const auto options = [](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions().betas(std::make_tuple(0.9, 0.95)).weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::move(decaying), options(weight_decay));
  groups.emplace_back(std::move(others), options(0));
  adamw_ = std::make_unique<torch::optim::AdamW>(std::move(groups));
}

Optimizer::~Optimizer() = default;

at::Tensor Optimizer::ClipGradients(double max_norm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& value : values_) norms.push_back(value.grad().norm());
  const at::Tensor norm = at::stack(norms).norm();
  if (max_norm > 0) {
    // The small term keeps a norm of 0 from dividing; it moves a clipped norm by a millionth.
    const at::Tensor scale = (max_norm / (norm + 1e-6)).clamp_max(1.0);
    for (const at::Tensor& value : values_) value.grad().mul_(scale);
  }
  return norm;
}

void Optimizer::Step(double lr) {
  for (auto& group : adamw_->param_groups()) group.options().set_lr(lr);
  adamw_->step();
}

void Optimizer::ZeroGradients() {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& value : values_) {
    if (value.grad().defined()) value.grad().zero_();
  }
}

}  // namespace ranklog::trainer
