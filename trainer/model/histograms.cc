#include "trainer/model/histograms.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace ranklog::trainer {

Histogram HistogramOf(const at::Tensor& values) {
  const at::Tensor numbers = values.detach().to(at::kCPU, at::kFloat).contiguous();
  return Histogram(
      Span<const float>(numbers.data_ptr<float>(), static_cast<size_t>(numbers.numel())));
}

std::vector<Value::Field> GradientHistograms(const torch::nn::Module& model) {
  std::vector<Value::Field> histograms;
  for (const auto& parameter : model.named_parameters()) {
    const at::Tensor& gradient = parameter.value().grad();
    if (!gradient.defined()) continue;
    histograms.emplace_back(absl::StrCat("gradients/", parameter.key()), HistogramOf(gradient));
  }
  return histograms;
}

}  // namespace ranklog::trainer
