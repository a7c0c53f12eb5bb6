#include "trainer/model/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <cmath>
#include <vector>

namespace ranklog::trainer {
namespace {

at::Tensor ParameterWith(const at::Tensor& value, const at::Tensor& gradient) {
  at::Tensor parameter = value.clone().requires_grad_();
  parameter.mutable_grad() = gradient.clone();
  return parameter;
}

// AdamW of one number, from the paper (Loshchilov and Hutter, 2019, algorithm 2).
struct AdamWReference {
  double value, decay, mean = 0, variance = 0;
  int steps = 0;

  void Step(double gradient, double lr) {
    ++steps;
    mean = 0.9 * mean + 0.1 * gradient;
    variance = 0.95 * variance + 0.05 * gradient * gradient;
    const double unbiased = mean / (1 - std::pow(0.9, steps));
    const double size = std::sqrt(variance / (1 - std::pow(0.95, steps))) + 1e-8;
    value -= lr * (unbiased / size + decay * value);
  }
};

// Takes steps by `step`, and compares them with the paper's.
template <typename TakeStep>
void ExpectStepsOfThePaper(TakeStep step) {
  constexpr double kRate = 0.1, kDecay = 0.5;
  at::Tensor matrix = ParameterWith(at::full({1, 1}, 2.0), at::zeros({1, 1}));
  at::Tensor vector = ParameterWith(at::full({1}, 2.0), at::zeros({1}));
  torch::optim::AdamW optimizer = MakeAdamW({matrix, vector}, kDecay);
  AdamWReference of_matrix{.value = 2, .decay = kDecay}, of_vector{.value = 2, .decay = 0};
  SetLearningRate(optimizer, kRate);
  for (const double gradient : {1.0, -3.0, 0.25, 4.0}) {  // uneven, so that each beta has an effect
    matrix.mutable_grad().fill_(gradient);
    vector.mutable_grad().fill_(gradient);
    step(optimizer);
    of_matrix.Step(gradient, kRate);
    of_vector.Step(gradient, kRate);
    EXPECT_NEAR(matrix.item<double>(), of_matrix.value, 1e-5) << of_matrix.steps;
    EXPECT_NEAR(vector.item<double>(), of_vector.value, 1e-5) << of_vector.steps;
  }
}

TEST(StepTest, MatchesPaperAndOnlyMatricesDecay) { ExpectStepsOfThePaper(Step); }

// As Step() does on a GPU. With LibTorch 1.13, no step is taken at once.
TEST(StepAtOnceTest, MatchesPaperAndOnlyMatricesDecay) {
  int at_once = 0;
  ExpectStepsOfThePaper([&](torch::optim::AdamW& optimizer) {
    if (StepAtOnce(optimizer)) {
      ++at_once;
    } else {
      optimizer.step();
    }
  });
  EXPECT_EQ(at_once, TORCH_VERSION_MAJOR < 2 ? 0 : 3);
}

TEST(SetLearningRateTest, AppliesToAllParameterGroups) {
  at::Tensor matrix = ParameterWith(at::ones({1, 1}), at::ones({1, 1}));
  at::Tensor vector = ParameterWith(at::ones({1}), at::ones({1}));
  torch::optim::AdamW optimizer = MakeAdamW({matrix, vector}, /*weight_decay=*/0);
  SetLearningRate(optimizer, 0.25);
  Step(optimizer);
  EXPECT_NEAR(matrix.item<double>(), 0.75, 1e-6);
  EXPECT_NEAR(vector.item<double>(), 0.75, 1e-6);
}

class ClipGradientsTest : public ::testing::Test {
 protected:
  // The norm over both is 5.
  const std::vector<at::Tensor> parameters_ = {
      ParameterWith(at::ones({1, 2}), at::full({1, 2}, 3 / std::sqrt(2))),
      ParameterWith(at::ones({1}), at::full({1}, -4.0))};
  double Last() const { return parameters_[1].grad().item<double>(); }
};

TEST_F(ClipGradientsTest, ScalesAllByOneFactor) {
  EXPECT_NEAR(ClipGradients(parameters_, 0.5).item<double>(), 5, 1e-5);
  EXPECT_NEAR(parameters_[0].grad().norm().item<double>(), 0.3, 1e-5);
  EXPECT_NEAR(Last(), -0.4, 1e-5);
}

TEST_F(ClipGradientsTest, SmallGradientsAreUnchanged) {
  EXPECT_NEAR(ClipGradients(parameters_, 5.5).item<double>(), 5, 1e-5);
  EXPECT_EQ(Last(), -4.0);
}

TEST_F(ClipGradientsTest, ZeroDisablesClipping) {
  EXPECT_NEAR(ClipGradients(parameters_, 0).item<double>(), 5, 1e-5);
  EXPECT_EQ(Last(), -4.0);
}

TEST(ZeroGradientsTest, GradientsKeepTheirMemory) {
  const at::Tensor parameter = ParameterWith(at::ones({2}), at::ones({2}));
  const at::Tensor bucket = parameter.grad();
  ZeroGradients({parameter, at::ones({1})});
  EXPECT_TRUE(parameter.grad().is_same(bucket));
  EXPECT_EQ(bucket.sum().item<double>(), 0);
}

}  // namespace
}  // namespace ranklog::trainer
