#include "trainer/model/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "trainer/base/torch_compat.h"

namespace ranklog::trainer {
namespace {

using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

// Updates the parameters of a group, all of which took part in the same steps. `states`: AdamW's
// state of each. A template, because 1.13 lacks the function.
template <typename Tensor>
void UpdateAtOnce(const std::vector<Tensor>& parameters,
                  const std::vector<AdamWParamState*>& states, const AdamWOptions& options) {
  if (parameters.empty()) return;
  std::vector<Tensor> means, variances;
  for (AdamWParamState* state : states) {
    state->step(state->step() + 1);
    means.push_back(state->exp_avg());
    variances.push_back(state->exp_avg_sq());
  }
  const Tensor step = at::full({}, states[0]->step(), parameters[0].options().dtype(at::kFloat));
  const auto [beta1, beta2] = options.betas();
  _fused_adamw_(parameters, GradientsOf(parameters), means, variances, /*max_exp_avg_sqs=*/{},
                std::vector<Tensor>(parameters.size(), step), options.lr(), beta1, beta2,
                options.weight_decay(), options.eps(), /*amsgrad=*/false, /*maximize=*/false);
}

template <typename Tensors>
constexpr bool kUpdatesAtOnce = requires(Tensors tensors) {
  _fused_adamw_(tensors, tensors, tensors, tensors, tensors, tensors, 0.0, 0.0, 0.0, 0.0, 0.0,
                false, false);
};

// AdamW's state of each parameter of a group; fewer before the first step, which makes them.
std::vector<AdamWParamState*> StatesOf(torch::optim::AdamW& optimizer,
                                       const torch::optim::OptimizerParamGroup& group) {
  auto& all = optimizer.state();
  std::vector<AdamWParamState*> states;
  for (const at::Tensor& parameter : group.params()) {
    const auto found = all.find(compat::StateKey(all, parameter));
    if (found == all.end()) continue;
    states.push_back(static_cast<AdamWParamState*>(found->second.get()));
  }
  return states;
}

template <typename Tensor>
bool StepAllAtOnce(torch::optim::AdamW& optimizer) {
  if constexpr (kUpdatesAtOnce<std::vector<Tensor>>) {
    const at::NoGradGuard no_grad;
    auto& groups = optimizer.param_groups();
    for (const auto& group : groups) {
      const size_t count = group.params().size();
      if (StatesOf(optimizer, group).size() != count || GradientsOf(group.params()).size() != count)
        return false;
    }
    for (const auto& group : groups) {
      UpdateAtOnce<Tensor>(group.params(), StatesOf(optimizer, group),
                           static_cast<const AdamWOptions&>(group.options()));
    }
    return true;
  }
  return false;
}

}  // namespace

torch::optim::AdamW MakeAdamW(const std::vector<at::Tensor>& parameters, double weight_decay) {
  std::vector<at::Tensor> matrices, vectors;
  for (const at::Tensor& parameter : parameters) {
    (parameter.dim() >= 2 ? matrices : vectors).push_back(parameter);
  }
  auto options = AdamWOptions().betas(std::make_tuple(0.9, 0.95));
  const auto group = [&](std::vector<at::Tensor> members, double decay) {
    options.weight_decay(decay);
    return torch::optim::OptimizerParamGroup(std::move(members),
                                             std::make_unique<AdamWOptions>(options));
  };
  return torch::optim::AdamW(
      {group(std::move(matrices), weight_decay), group(std::move(vectors), 0)}, options);
}

void SetLearningRate(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

bool StepAtOnce(torch::optim::AdamW& optimizer) { return StepAllAtOnce<at::Tensor>(optimizer); }

void Step(torch::optim::AdamW& optimizer) {
  const auto& groups = optimizer.param_groups();
  const bool gpu = std::any_of(groups.begin(), groups.end(), [](const auto& group) {
    return !group.params().empty() && group.params()[0].is_cuda();
  });
  if (!gpu || !StepAtOnce(optimizer)) optimizer.step();
}

at::Tensor ClipGradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = GradientsOf(parameters);
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients)).norm();
  if (max_norm > 0) {
    // The small term avoids a division by 0; it changes a clipped norm by a millionth.
    compat::Scale(gradients, (max_norm / (norm + 1e-6)).clamp_max(1.0));
  }
  return norm;
}

void ZeroGradients(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients = GradientsOf(parameters);
  if (!gradients.empty()) at::_foreach_zero_(gradients);
}

}  // namespace ranklog::trainer
