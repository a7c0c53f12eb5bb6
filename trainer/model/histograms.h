#ifndef TRAINER_MODEL_HISTOGRAMS_H_
#define TRAINER_MODEL_HISTOGRAMS_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <vector>

#include "ranklog/ranklog.h"

namespace ranklog::trainer {

// The histogram of all values of a tensor of any shape, device and number type. Copies it to the
// CPU, so it waits for a GPU. NaN and infinities are left out.
Histogram HistogramOf(const at::Tensor& values);

// A histogram of each parameter's gradient, as "gradients/NAME" like wandb.watch() of W&B's SDK.
// Parameters without a gradient are left out.
std::vector<Value::Field> GradientHistograms(const torch::nn::Module& model);

}  // namespace ranklog::trainer

#endif  // TRAINER_MODEL_HISTOGRAMS_H_
