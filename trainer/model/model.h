#ifndef TRAINER_MODEL_MODEL_H_
#define TRAINER_MODEL_MODEL_H_

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <string>

namespace ranklog::trainer {

struct GptShape {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t width = 0;
  int64_t vocabulary = 256;
  int64_t context = 1024;  // longest sequence
  bool operator==(const GptShape&) const = default;
};

// The shape of a model by name.
//
// tiny, small  the vocabulary of the text, and a context of `seq_len`
// gpt2         12 layers, 12 heads, width 768, context 1024, 50257 tokens, as published. A text
//              with fewer tokens uses the first ones.
//
// `pad_vocabulary` rounds the vocabulary up to a multiple. GPUs multiply matrices faster if it is
// a multiple of 64.
GptShape ShapeOf(const std::string& model, int64_t seq_len, int64_t vocabulary,
                 int64_t pad_vocabulary = 1);

// GPT-2: a decoder-only transformer. Learned positions; pre-norm layers and a final layer norm;
// tanh GELU; output head tied to the token embedding. No dropout.
//
// Parameters have the names of the published checkpoints, such as h.0.attn.c_attn.weight. A weight
// is (out, in), as in torch::nn::Linear. The published weights are its transpose.
//
// Source: Radford et al., 2019, section 2.3, and the code published with it.
class Gpt : public torch::nn::Module {
 public:
  // Draws the weights from `seed`. Matrices have a standard deviation of 0.02, positions of 0.01.
  // The projections that add to the residual stream have 0.02 / sqrt(2 * layers).
  Gpt(const GptShape& shape, uint64_t seed);

  // The logits of the next token after each token: (batch, time, vocabulary).
  // tokens: (batch, time), int64, time <= context.
  at::Tensor forward(const at::Tensor& tokens);

  // The mean cross entropy, in nats per token. inputs, targets: (batch, time), int64.
  at::Tensor Loss(const at::Tensor& inputs, const at::Tensor& targets);

  const GptShape& shape() const { return shape_; }
  int64_t parameter_count() const;

 private:
  void Initialize(uint64_t seed);

  const GptShape shape_;
  torch::nn::Embedding wte_;  // tokens
  torch::nn::Embedding wpe_;  // positions
  torch::nn::Sequential h_;   // the layers
  torch::nn::LayerNorm ln_f_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_MODEL_MODEL_H_
