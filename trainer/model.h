#ifndef TRAINER_MODEL_H_
#define TRAINER_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ranklog::trainer {

struct GptShape {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t width = 0;
  int64_t vocabulary = 256;  // tokens are bytes
  int64_t context = 1024;    // longest sequence
};

// "tiny", "small" or "gpt2". gpt2 has GPT-2's vocabulary, padded to a multiple of 64, of which
// bytes use the first 256: with it the model has the 124 M parameters that the name stands for.
GptShape ShapeOf(const std::string& model, int64_t seq_len);

struct Parameter {
  std::string name;  // as in GPT-2's published checkpoints
  at::Tensor value;  // a leaf that requires a gradient
  bool decays;       // matrices do, biases and norms do not
};

// A decoder-only transformer of GPT-2's architecture: learned positions, layer norm before each
// part, GELU by tanh, the output head tied to the token embedding. No dropout.
//
// Plain tensors rather than a torch::nn::Module: nothing can then replace a parameter behind the
// back of the gradient reduction, which is bound to the very tensors.
class Gpt {
 public:
  // Weights are drawn from `seed` as GPT-2's are. Source: Radford et al., 2019, section 2.3.
  Gpt(const GptShape& shape, uint64_t seed);

  // The mean cross entropy, in nats per token. inputs, targets: (batch, time), int64, time <=
  // context.
  at::Tensor Loss(const at::Tensor& inputs, const at::Tensor& targets) const;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<at::Tensor> values() const;
  int64_t parameter_count() const;

 private:
  struct Affine {
    at::Tensor weight;
    at::Tensor bias;
  };
  struct Block {
    Affine ln_1, qkv, attention_out, ln_2, mlp_in, mlp_out;
  };

  at::Tensor Add(const std::string& name, at::Tensor value, bool decays);
  Affine AddLinear(const std::string& name, int64_t in, int64_t out, double std);
  Affine AddNorm(const std::string& name);
  at::Tensor Attention(const Block& block, const at::Tensor& x, const at::Tensor& mask) const;

  const GptShape shape_;
  at::Tensor token_embedding_;     // (vocabulary, width)
  at::Tensor position_embedding_;  // (context, width)
  std::vector<Block> blocks_;
  Affine ln_final_;
  std::vector<Parameter> parameters_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_MODEL_H_
