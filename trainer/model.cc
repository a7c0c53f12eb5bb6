#include "trainer/model.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <utility>

namespace ranklog::trainer {
namespace {

constexpr double kInitStd = 0.02;
constexpr double kNormEpsilon = 1e-5;

}  // namespace

GptShape ShapeOf(const std::string& model, int64_t seq_len) {
  if (model == "gpt2")
    return {.layers = 12, .heads = 12, .width = 768, .vocabulary = 50304, .context = 1024};
  if (model == "small")
    return {.layers = 6, .heads = 6, .width = 384, .vocabulary = 256, .context = seq_len};
  return {.layers = 4, .heads = 4, .width = 128, .vocabulary = 256, .context = seq_len};
}

Gpt::Gpt(const GptShape& shape, uint64_t seed) : shape_(shape) {
  at::manual_seed(seed);
  const int64_t width = shape.width;
  // What is added to the residual stream is scaled down by the number of such additions.
  const double residual_std = kInitStd / std::sqrt(2.0 * shape.layers);
  token_embedding_ =
      Add("wte.weight", at::randn({shape.vocabulary, width}) * kInitStd, /*decays=*/true);
  position_embedding_ =
      Add("wpe.weight", at::randn({shape.context, width}) * kInitStd, /*decays=*/true);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string name = "h." + std::to_string(layer) + ".";
    Block block;
    block.ln_1 = AddNorm(name + "ln_1");
    block.qkv = AddLinear(name + "attn.c_attn", width, 3 * width, kInitStd);
    block.attention_out = AddLinear(name + "attn.c_proj", width, width, residual_std);
    block.ln_2 = AddNorm(name + "ln_2");
    block.mlp_in = AddLinear(name + "mlp.c_fc", width, 4 * width, kInitStd);
    block.mlp_out = AddLinear(name + "mlp.c_proj", 4 * width, width, residual_std);
    blocks_.push_back(std::move(block));
  }
  ln_final_ = AddNorm("ln_f");
}

at::Tensor Gpt::Add(const std::string& name, at::Tensor value, bool decays) {
  value.set_requires_grad(true);
  parameters_.push_back({name, value, decays});
  return value;
}

Gpt::Affine Gpt::AddLinear(const std::string& name, int64_t in, int64_t out, double std) {
  Affine linear;
  linear.weight = Add(name + ".weight", at::randn({out, in}) * std, /*decays=*/true);
  linear.bias = Add(name + ".bias", at::zeros({out}), /*decays=*/false);
  return linear;
}

Gpt::Affine Gpt::AddNorm(const std::string& name) {
  Affine norm;
  norm.weight = Add(name + ".weight", at::ones({shape_.width}), /*decays=*/false);
  norm.bias = Add(name + ".bias", at::zeros({shape_.width}), /*decays=*/false);
  return norm;
}

at::Tensor Gpt::Attention(const Block& block, const at::Tensor& x, const at::Tensor& mask) const {
  const int64_t batch = x.size(0), time = x.size(1), width = x.size(2);
  const int64_t head_width = width / shape_.heads;
  // (3, batch * heads, time, head_width)
  const at::Tensor qkv = at::linear(x, block.qkv.weight, block.qkv.bias)
                             .view({batch, time, 3, shape_.heads, head_width})
                             .permute({2, 0, 3, 1, 4})
                             .reshape({3, batch * shape_.heads, time, head_width});
  const at::Tensor scores = at::baddbmm(mask, qkv[0], qkv[1].transpose(1, 2), /*beta=*/1,
                                        /*alpha=*/1 / std::sqrt(static_cast<double>(head_width)));
  const at::Tensor mixed = at::bmm(at::softmax(scores, -1), qkv[2])
                               .view({batch, shape_.heads, time, head_width})
                               .transpose(1, 2)
                               .reshape({batch, time, width});
  return at::linear(mixed, block.attention_out.weight, block.attention_out.bias);
}

at::Tensor Gpt::Loss(const at::Tensor& inputs, const at::Tensor& targets) const {
  const int64_t time = inputs.size(1);
  const auto norm = [&](const Affine& p, const at::Tensor& x) {
    return at::layer_norm(x, {shape_.width}, p.weight, p.bias, kNormEpsilon);
  };
  // (time, time): nobody sees what comes after.
  const at::Tensor mask =
      at::full({time, time}, -std::numeric_limits<float>::infinity(), position_embedding_.options())
          .triu(1);
  at::Tensor x = at::embedding(token_embedding_, inputs) + position_embedding_.slice(0, 0, time);
  for (const Block& block : blocks_) {
    x = x + Attention(block, norm(block.ln_1, x), mask);
    const at::Tensor hidden =
        at::gelu(at::linear(norm(block.ln_2, x), block.mlp_in.weight, block.mlp_in.bias), "tanh");
    x = x + at::linear(hidden, block.mlp_out.weight, block.mlp_out.bias);
  }
  const at::Tensor logits =
      at::linear(norm(ln_final_, x), token_embedding_);  // (batch, time, vocabulary)
  return at::cross_entropy_loss(logits.view({-1, shape_.vocabulary}), targets.reshape({-1}));
}

std::vector<at::Tensor> Gpt::values() const {
  std::vector<at::Tensor> values;
  for (const Parameter& parameter : parameters_) values.push_back(parameter.value);
  return values;
}

int64_t Gpt::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.value.numel();
  return count;
}

}  // namespace ranklog::trainer
