#include "service/deliver/json/bounded_json.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ranklog::deliver {
namespace {

std::string Nested(size_t depth, char opening, const std::string& inner) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) absl::StrAppend(&text, std::string(1, opening), inner);
  return text;
}

TEST(BoundedJsonTest, ParsesWhatIsWithinItsBounds) {
  const nlohmann::json parsed =
      ParseBoundedJson(R"( {"a": [1, -2.5, "x,y]}\"[{\\", null], "b": {}} )", 9);
  ASSERT_TRUE(parsed.is_object());
  EXPECT_EQ(parsed["a"][2], "x,y]}\"[{\\");
  EXPECT_EQ(parsed["b"], nlohmann::json::object());
}

TEST(BoundedJsonTest, DiscardsWhatIsNotJson) {
  for (const char* text : {"", "<html>", "[1", "]", "{\"a\"}", "[1]]", "\"", "\"\\", "[NaN]"}) {
    EXPECT_TRUE(ParseBoundedJson(text, 100).is_discarded()) << text;
  }
}

// The 4 MiB of an answer may hold any nesting, closed or not.
TEST(BoundedJsonTest, DiscardsDeepNesting) {
  const std::string deepest = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_TRUE(ParseBoundedJson(deepest, 1000).is_array());
  EXPECT_TRUE(ParseBoundedJson(absl::StrCat("[", deepest, "]"), 1000).is_discarded());
  const size_t half = 2 << 20;
  EXPECT_TRUE(ParseBoundedJson(std::string(2 * half, '['), SIZE_MAX).is_discarded());
  EXPECT_TRUE(
      ParseBoundedJson(std::string(half, '[') + std::string(half, ']'), SIZE_MAX).is_discarded());
  EXPECT_TRUE(ParseBoundedJson(Nested(800'000, '{', "\"\":"), SIZE_MAX).is_discarded());
  EXPECT_TRUE(ParseBoundedJson(Nested(400'000, '[', "\"\\\\\","), SIZE_MAX).is_discarded());
}

// An empty array or object counts as two values.
TEST(BoundedJsonTest, CountsEveryValue) {
  EXPECT_TRUE(ParseBoundedJson("[1,2,3]", 4).is_array());
  EXPECT_TRUE(ParseBoundedJson("[1,2,3]", 3).is_discarded());
  EXPECT_TRUE(ParseBoundedJson(R"({"a":{},"b":[]})", 5).is_object());
  EXPECT_TRUE(ParseBoundedJson(R"({"a":{},"b":[]})", 4).is_discarded());
  EXPECT_TRUE(ParseBoundedJson(R"(["a,b,c,d"])", 2).is_array());
}

}  // namespace
}  // namespace ranklog::deliver
