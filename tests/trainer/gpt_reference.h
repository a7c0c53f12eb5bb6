// GPT-2 in double precision, with plain loops from the formulae of its paper and code. It shares
// only the names of the weights with the model under test.

#ifndef TESTS_TRAINER_GPT_REFERENCE_H_
#define TESTS_TRAINER_GPT_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <string>
#include <vector>

namespace ranklog::trainer {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class GptReference {
 public:
  // `weights`: by name, row by row. A matrix is (out, in).
  GptReference(int layers, int heads, int width, std::map<std::string, Row> weights)
      : layers_(layers), heads_(heads), width_(width), weights_(std::move(weights)) {}

  // For each token, the logits of the next one.
  Rows Logits(const std::vector<int64_t>& tokens) const {
    const Row &wte = weights_.at("wte.weight"), &wpe = weights_.at("wpe.weight");
    Rows x(tokens.size(), Row(width_));
    for (size_t t = 0; t < tokens.size(); ++t) {
      for (int i = 0; i < width_; ++i) x[t][i] = wte[tokens[t] * width_ + i] + wpe[t * width_ + i];
    }
    for (int layer = 0; layer < layers_; ++layer) {
      const std::string name = "h." + std::to_string(layer) + ".";
      Add(Attend(name + "attn.", Norm(name + "ln_1", x)), x);
      Rows hidden = Linear(name + "mlp.c_fc", Norm(name + "ln_2", x));
      for (Row& row : hidden) {
        for (double& value : row) value = Gelu(value);
      }
      Add(Linear(name + "mlp.c_proj", hidden), x);
    }
    return Multiply(wte, Norm("ln_f", x));
  }

 private:
  static double Gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }

  static void Add(const Rows& more, Rows& x) {
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += more[t][i];
    }
  }

  // matrix: (out, in); x: rows of `in`
  static Rows Multiply(const Row& matrix, const Rows& x) {
    const size_t in = x[0].size(), out = matrix.size() / in;
    Rows y(x.size(), Row(out));
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t o = 0; o < out; ++o) {
        for (size_t i = 0; i < in; ++i) y[t][o] += matrix[o * in + i] * x[t][i];
      }
    }
    return y;
  }

  Rows Linear(const std::string& name, const Rows& x) const {
    Rows y = Multiply(weights_.at(name + ".weight"), x);
    for (Row& row : y) {
      for (size_t o = 0; o < row.size(); ++o) row[o] += weights_.at(name + ".bias")[o];
    }
    return y;
  }

  Rows Norm(const std::string& name, const Rows& x) const {
    Rows y = x;
    for (Row& row : y) {
      double mean = 0, variance = 0;
      for (const double value : row) mean += value / row.size();
      for (const double value : row) variance += (value - mean) * (value - mean) / row.size();
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) * weights_.at(name + ".weight")[i] +
                 weights_.at(name + ".bias")[i];
      }
    }
    return y;
  }

  Rows Attend(const std::string& name, const Rows& x) const {
    const Rows qkv = Linear(name + "c_attn", x);  // queries, keys, values side by side
    const int head_width = width_ / heads_;
    Rows mixed(x.size(), Row(width_));
    for (int head = 0; head < heads_; ++head) {
      const int q = head * head_width, k = width_ + q, v = 2 * width_ + q;
      for (size_t t = 0; t < x.size(); ++t) {
        Row weight(t + 1);
        double total = 0;
        for (size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (int i = 0; i < head_width; ++i) score += qkv[t][q + i] * qkv[s][k + i];
          total += weight[s] = std::exp(score / std::sqrt(head_width));
        }
        for (size_t s = 0; s <= t; ++s) {
          for (int i = 0; i < head_width; ++i) mixed[t][q + i] += weight[s] / total * qkv[s][v + i];
        }
      }
    }
    return Linear(name + "c_proj", mixed);
  }

  const int layers_, heads_, width_;
  const std::map<std::string, Row> weights_;
};

}  // namespace ranklog::trainer

#endif  // TESTS_TRAINER_GPT_REFERENCE_H_
