// The comparison that decides whether a row has the predicted shape.

#include "client/ring/shapes.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace ranklog::internal {
namespace {

TEST(ShapesTest, SameBytesDetectsAnyDifference) {
  for (size_t size = 0; size <= 200; ++size) {
    // Has exactly this size, so that a sanitizer detects a read beyond the end.
    std::vector<char> a(size, 'k');
    std::vector<char> b = a;
    EXPECT_TRUE(SameBytes(a.data(), b.data(), size)) << size;
    for (size_t at = 0; at < size; ++at) {
      b[at] = 'K';
      EXPECT_FALSE(SameBytes(a.data(), b.data(), size)) << at << " of " << size;
      b[at] = 'k';
    }
  }
}

TEST(ShapesTest, FindsShapeByKeysAndOrder) {
  ShapeTable table;
  const std::string_view keys[] = {"loss", "a/longer/key/of/a/metric", "lr"};
  const std::string_view swapped[] = {"lr", "a/longer/key/of/a/metric", "loss"};
  const std::string_view joined[] = {"los", "sa/longer/key/of/a/metric", "lr"};
  Shape* const shape = table.Add(keys);
  EXPECT_EQ(table.Find(keys), shape);
  EXPECT_EQ(table.Find(swapped), nullptr);
  EXPECT_EQ(table.Find(joined), nullptr);
  EXPECT_NE(table.Add(swapped), shape);
  EXPECT_EQ(table.Find(keys), shape);
}

}  // namespace
}  // namespace ranklog::internal
