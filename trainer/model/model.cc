#include "trainer/model/model.h"

#include <torch/nn/modules/linear.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ranklog::trainer {
namespace {

using torch::nn::Linear;

constexpr int64_t kGpt2Vocabulary = 50257;
constexpr double kInitStd = 0.02;
constexpr double kPositionStd = 0.01;

torch::nn::LayerNorm Norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-5));
}

// Linear::forward() multiplies and then adds the bias, so it writes its output twice.
at::Tensor Apply(Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

// Softmax attention of each position to itself and the earlier ones. q, k, v: (batch, heads, time,
// head width). LibTorch 2 has an operator for it, but 1.13 does not. A template, so that only the
// branch for this LibTorch is compiled.
template <typename Tensor>
Tensor CausalAttention(const Tensor& q, const Tensor& k, const Tensor& v) {
  if constexpr (requires { scaled_dot_product_attention(q, k, v, {}, 0.0, true); }) {
    return scaled_dot_product_attention(q, k, v, /*mask=*/{}, /*dropout=*/0.0, /*causal=*/true);
  } else {
    const int64_t time = q.size(2);
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
    const Tensor mask =
        at::full({time, time}, -std::numeric_limits<float>::infinity(), q.options()).triu(1);
    const Tensor scores = at::baddbmm(mask, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2),
                                      /*beta=*/1, /*alpha=*/scale);
    return at::bmm(at::softmax(scores, -1), v.flatten(0, 1)).view(q.sizes());
  }
}

class Attention : public torch::nn::Module {
 public:
  explicit Attention(const GptShape& shape)
      : heads_(shape.heads),
        c_attn_(register_module("c_attn", Linear(shape.width, 3 * shape.width))),
        c_proj_(register_module("c_proj", Linear(shape.width, shape.width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const int64_t batch = x.size(0), time = x.size(1), width = x.size(2);
    // Queries, keys, values: (batch, heads, time, head width). Unbound, not indexed: the gradients of
    // three indices are three tensors of the whole size, and their sum.
    const std::vector<at::Tensor> qkv = Apply(c_attn_, x)
                                            .view({batch, time, 3, heads_, width / heads_})
                                            .permute({2, 0, 3, 1, 4})
                                            .contiguous()
                                            .unbind(0);
    const at::Tensor mixed =
        CausalAttention(qkv[0], qkv[1], qkv[2]).transpose(1, 2).reshape({batch, time, width});
    return Apply(c_proj_, mixed);
  }

 private:
  const int64_t heads_;
  Linear c_attn_, c_proj_;
};

class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const GptShape& shape)
      : c_fc_(register_module("c_fc", Linear(shape.width, 4 * shape.width))),
        c_proj_(register_module("c_proj", Linear(4 * shape.width, shape.width))) {}

  at::Tensor forward(const at::Tensor& x) {
    return Apply(c_proj_, at::gelu(Apply(c_fc_, x), "tanh"));
  }

 private:
  Linear c_fc_, c_proj_;
};

// One layer.
class Block : public torch::nn::Module {
 public:
  explicit Block(const GptShape& shape)
      : ln_1_(register_module("ln_1", Norm(shape.width))),
        attn_(register_module("attn", std::make_shared<Attention>(shape))),
        ln_2_(register_module("ln_2", Norm(shape.width))),
        mlp_(register_module("mlp", std::make_shared<Mlp>(shape))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor attended = x + attn_->forward(ln_1_->forward(x));
    return attended + mlp_->forward(ln_2_->forward(attended));
  }

 private:
  torch::nn::LayerNorm ln_1_;
  std::shared_ptr<Attention> attn_;
  torch::nn::LayerNorm ln_2_;
  std::shared_ptr<Mlp> mlp_;
};

}  // namespace

GptShape ShapeOf(const std::string& model, int64_t seq_len, int64_t vocabulary,
                 int64_t pad_vocabulary) {
  GptShape shape{.vocabulary = vocabulary, .context = seq_len};
  if (model == "gpt2") {
    shape = {.layers = 12,
             .heads = 12,
             .width = 768,
             .vocabulary = std::max(vocabulary, kGpt2Vocabulary),
             .context = 1024};
  } else if (model == "small") {
    shape.layers = shape.heads = 6;
    shape.width = 384;
  } else {
    shape.layers = shape.heads = 4;
    shape.width = 128;
  }
  shape.vocabulary = (shape.vocabulary + pad_vocabulary - 1) / pad_vocabulary * pad_vocabulary;
  return shape;
}

Gpt::Gpt(const GptShape& shape, uint64_t seed)
    : shape_(shape),
      wte_(register_module("wte", torch::nn::Embedding(shape.vocabulary, shape.width))),
      wpe_(register_module("wpe", torch::nn::Embedding(shape.context, shape.width))),
      h_(register_module("h", torch::nn::Sequential())),
      ln_f_(register_module("ln_f", Norm(shape.width))) {
  for (int64_t layer = 0; layer < shape.layers; ++layer) h_->push_back(Block(shape));
  Initialize(seed);
}

void Gpt::Initialize(uint64_t seed) {
  const at::NoGradGuard no_grad;
  at::manual_seed(seed);
  for (auto& item : named_parameters()) {
    const std::string& name = item.key();
    if (name.ends_with(".bias")) {
      item.value().zero_();
    } else if (name.ends_with("c_proj.weight")) {
      item.value().normal_(0, kInitStd / std::sqrt(2.0 * shape_.layers));
    } else if (item.value().dim() == 2) {  // the scale of a layer norm is a vector of ones
      item.value().normal_(0, name == "wpe.weight" ? kPositionStd : kInitStd);
    }
  }
}

at::Tensor Gpt::forward(const at::Tensor& tokens) {
  const at::Tensor positions = wpe_->weight.slice(0, 0, tokens.size(1));  // (time, width)
  const at::Tensor x = h_->forward(wte_->forward(tokens) + positions);    // (batch, time, width)
  return at::linear(ln_f_->forward(x), wte_->weight);
}

at::Tensor Gpt::Loss(const at::Tensor& inputs, const at::Tensor& targets) {
  return at::cross_entropy_loss(forward(inputs).view({-1, shape_.vocabulary}),
                                targets.reshape({-1}));
}

int64_t Gpt::parameter_count() const {
  int64_t count = 0;
  for (const at::Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

}  // namespace ranklog::trainer
