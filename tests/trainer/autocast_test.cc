#include "trainer/model/autocast.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

namespace ranklog::trainer {
namespace {

at::Tensor Product(const at::Tensor& weight) { return at::linear(at::ones({1, 4}), weight); }

TEST(AutocastTest, ProductsAreBfloat16WhileEnabled) {
  const at::Tensor weight = at::ones({2, 4});
  {
    const Autocast autocast(c10::kCPU, /*on=*/true);
    EXPECT_EQ(Product(weight).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(Product(weight).scalar_type(), at::kFloat);
  const Autocast off(c10::kCPU, /*on=*/false);
  EXPECT_EQ(Product(weight).scalar_type(), at::kFloat);
}

TEST(AutocastTest, GradientsAreFloat32) {
  at::Tensor weight = at::ones({2, 4}).set_requires_grad(true);
  at::Tensor loss;
  {
    const Autocast autocast(c10::kCPU, /*on=*/true);
    loss = Product(weight).sum();
  }
  loss.backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
}

TEST(AutocastTest, ChangedWeightIsCastAgain) {
  at::Tensor weight = at::ones({2, 4}).set_requires_grad(true);
  for (const float expected : {4.0f, 8.0f}) {
    const Autocast autocast(c10::kCPU, /*on=*/true);
    EXPECT_EQ(Product(weight)[0][0].item<float>(), expected);
    const c10::NoGradGuard no_grad;
    weight.mul_(2);
  }
}

}  // namespace
}  // namespace ranklog::trainer
