#include "trainer/model/histograms.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/model/model.h"

namespace ranklog::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HistogramsTest, CountsEveryValueOfATensor) {
  const at::Tensor matrix = at::tensor({0.0, 1.0, 2.0, 3.0}).view({2, 2});
  for (const at::Tensor& values : {matrix, matrix.t(), matrix.to(at::kDouble), matrix.to(at::kLong),
                                   matrix.to(at::kBFloat16)}) {
    const Histogram histogram = HistogramOf(values);
    EXPECT_EQ(histogram.counts().size(), Histogram::kDefaultBins);
    EXPECT_EQ(histogram.counts().front(), 1);
    EXPECT_EQ(histogram.counts().back(), 1);
    EXPECT_EQ(histogram.edges().back(), 3);
  }
}

TEST(HistogramsTest, GradientsHaveTheNamesOfTheirParameters) {
  Gpt model({.layers = 1, .heads = 1, .width = 4, .vocabulary = 5, .context = 8}, /*seed=*/1);
  EXPECT_THAT(GradientHistograms(model), IsEmpty());
  const at::Tensor tokens = at::zeros({1, 8}, at::kLong);
  model.Loss(tokens, tokens).backward();
  const std::vector<Value::Field> histograms = GradientHistograms(model);
  EXPECT_EQ(histograms.size(), model.parameters().size());
  EXPECT_EQ(histograms[0].first, "gradients/wte.weight");
  EXPECT_EQ(histograms[0].second.field().kind, static_cast<uint64_t>(RANKLOG_OBJECT));
}

}  // namespace
}  // namespace ranklog::trainer
