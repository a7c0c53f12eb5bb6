#include "ranklog/span.h"

#include <gmock/gmock.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ranklog {
namespace {

using ::testing::ElementsAre;

using Numbers = Span<const double>;

std::vector<double> Elements(Numbers numbers) { return {numbers.begin(), numbers.end()}; }

TEST(SpanTest, ViewsWhatHasDataAndSize) {
  std::vector<double> vector = {1, 2};
  const std::array<double, 2> array = {3, 4};
  double plain[] = {5, 6};
  EXPECT_THAT(Elements(vector), ElementsAre(1, 2));
  EXPECT_THAT(Elements(array), ElementsAre(3, 4));
  EXPECT_THAT(Elements(plain), ElementsAre(5, 6));
  EXPECT_THAT(Elements(std::span(vector).subspan(1)), ElementsAre(2));
  EXPECT_THAT(Elements({vector.data(), 1}), ElementsAre(1));
  EXPECT_TRUE(Numbers().empty());
  vector[1] = 7;  // not a copy
  EXPECT_EQ(Numbers(vector)[1], 7);
}

TEST(SpanTest, RejectsIncompatibleTypes) {
  static_assert(!std::is_constructible_v<Numbers, std::vector<float>>);
  static_assert(!std::is_constructible_v<Numbers, std::string>);
  static_assert(!std::is_constructible_v<Numbers, int, int>);
  static_assert(!std::is_constructible_v<Span<double>, const std::vector<double>&>);
  static_assert(!std::is_constructible_v<Span<const std::string_view>, std::vector<std::string>>);
}

}  // namespace
}  // namespace ranklog
