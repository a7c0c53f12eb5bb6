#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/trainer/gpt_reference.h"
#include "trainer/model/model.h"

namespace ranklog::trainer {
namespace {

double StandardDeviation(const at::Tensor& values) { return values.std().item<double>(); }

TEST(GptTest, Gpt2HasPublishedParameterCount) {
  EXPECT_EQ(Gpt(ShapeOf("gpt2", 128, 256), 1).parameter_count(), 124439808);
}

TEST(GptTest, SmallModelsHaveDocumentedParameterCounts) {
  EXPECT_EQ(Gpt(ShapeOf("tiny", 128, 256), 1).parameter_count(), 842496);
  EXPECT_EQ(Gpt(ShapeOf("small", 128, 256), 1).parameter_count(), 10795008);
}

TEST(GptShapeTest, VocabularyFollowsTextOrGpt2) {
  EXPECT_EQ(ShapeOf("tiny", 128, 4096).vocabulary, 4096);
  EXPECT_EQ(ShapeOf("gpt2", 128, 256).vocabulary, 50257);
  EXPECT_EQ(ShapeOf("gpt2", 128, 60000).vocabulary, 60000);
}

TEST(GptShapeTest, PaddingRoundsTheVocabularyUp) {
  EXPECT_EQ(ShapeOf("gpt2", 128, 256, 64).vocabulary, 50304);
  EXPECT_EQ(ShapeOf("tiny", 128, 256, 64).vocabulary, 256);
}

TEST(GptTest, ParametersHaveThePublishedNames) {
  std::vector<std::string> names;
  for (const auto& item : Gpt({.layers = 1, .heads = 2, .width = 8}, 1).named_parameters()) {
    names.push_back(item.key());
  }
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias",
                         "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight",
                         "h.0.attn.c_proj.bias", "h.0.ln_2.weight", "h.0.ln_2.bias",
                         "h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight",
                         "h.0.mlp.c_proj.bias", "ln_f.weight", "ln_f.bias"));
}

TEST(GptTest, WeightsAreDrawnAsPublished) {
  const Gpt model(ShapeOf("tiny", 128, 256), 1);
  for (const auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    if (name.ends_with(".bias")) {
      EXPECT_EQ(item.value().abs().max().item<float>(), 0) << name;
    } else if (name.find("ln_") != std::string::npos) {
      EXPECT_TRUE(item.value().equal(at::ones({128}))) << name;
    } else {
      const bool adds_to_residual = name.ends_with("c_proj.weight");
      const double expected =
          name == "wpe.weight" ? 0.01 : 0.02 / (adds_to_residual ? std::sqrt(8.0) : 1);
      EXPECT_NEAR(StandardDeviation(item.value()) / expected, 1, 0.03) << name;
    }
  }
}

TEST(GptTest, SameSeedGivesSameWeights) {
  const auto weights = [](uint64_t seed) {
    return Gpt({.layers = 1, .heads = 2, .width = 8}, seed).parameters()[0];
  };
  EXPECT_TRUE(weights(1).equal(weights(1)));
  EXPECT_FALSE(weights(1).equal(weights(2)));
}

// Weights so large that every part of the formulae affects the logits.
TEST(GptTest, LogitsMatchDoublePrecisionReference) {
  const GptShape shape{.layers = 3, .heads = 3, .width = 24, .vocabulary = 40, .context = 20};
  Gpt model(shape, 1);
  const at::NoGradGuard no_grad;
  std::map<std::string, Row> weights;
  int64_t seed = 0;
  for (auto& item : model.named_parameters()) {
    const at::Tensor values =
        (at::arange(item.value().numel(), at::kDouble) * 0.7 + ++seed).sin().mul(0.5);
    item.value().copy_(values.view(item.value().sizes()));
    const at::Tensor kept = item.value().to(at::kDouble).flatten();
    weights[item.key()].assign(kept.data_ptr<double>(), kept.data_ptr<double>() + kept.numel());
  }
  const std::vector<int64_t> tokens = {3, 39, 0, 7, 7, 21, 12, 30, 5, 18, 3, 11, 26, 2, 9, 35, 1};
  const Rows expected = GptReference(3, 3, 24, weights).Logits(tokens);

  const at::Tensor logits = model.forward(at::tensor(tokens, at::kLong).unsqueeze(0));
  double largest = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    for (int64_t token = 0; token < shape.vocabulary; ++token) {
      EXPECT_NEAR(logits[0][t][token].item<double>(), expected[t][token], 1e-4)
          << t << " " << token;
      largest = std::max(largest, std::abs(expected[t][token]));
    }
  }
  EXPECT_GT(largest, 1);
}

TEST(GptTest, LossIsMeanCrossEntropy) {
  Gpt model({.layers = 1, .heads = 2, .width = 8, .vocabulary = 5, .context = 3}, 1);
  const at::NoGradGuard no_grad;
  const at::Tensor inputs = at::tensor({0, 1, 2, 3, 4, 0}, at::kLong).view({2, 3});
  const at::Tensor targets = at::tensor({1, 2, 3, 4, 0, 1}, at::kLong).view({2, 3});
  const at::Tensor logits = model.forward(inputs);
  double expected = 0;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < 3; ++t) {
      double total = 0;
      for (int64_t v = 0; v < 5; ++v) total += std::exp(logits[b][t][v].item<double>());
      expected += std::log(total) - logits[b][t][targets[b][t].item<int64_t>()].item<double>();
    }
  }
  EXPECT_NEAR(model.Loss(inputs, targets).item<double>(), expected / 6, 1e-6);
}

TEST(GptTest, NoTokenSeesWhatComesAfter) {
  Gpt model(ShapeOf("tiny", 8, 256), 1);
  const at::NoGradGuard no_grad;
  const at::Tensor inputs = at::arange(8, at::kLong).view({1, 8});
  at::Tensor changed = inputs.clone();
  changed[0][7] = 99;
  const at::Tensor before = model.forward(inputs), after = model.forward(changed);
  EXPECT_TRUE(before.slice(1, 0, 7).equal(after.slice(1, 0, 7)));
  EXPECT_FALSE(before.slice(1, 7, 8).equal(after.slice(1, 7, 8)));
}

}  // namespace
}  // namespace ranklog::trainer
