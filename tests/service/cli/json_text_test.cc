#include "service/cli/output/json_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace ranklog::cli {
namespace {

using model::Json;

TEST(JsonTextTest, PrintsOrderedMembersOnePerLine) {
  const Json json = {{"z", 1}, {"a", {{"inner", "text"}}}, {"list", {1, 2}}};
  EXPECT_EQ(
      PrettyJson(json),
      "{\n  \"z\": 1,\n  \"a\": {\n    \"inner\": \"text\"\n  },\n  \"list\": [\n    1,\n    2\n"
      "  ]\n}\n");
}

TEST(JsonTextTest, EmptyContainersStayOnOneLine) {
  EXPECT_EQ(PrettyJson(Json::array()), "[]\n");
  EXPECT_EQ(PrettyJson(Json::object()), "{}\n");
}

TEST(JsonTextTest, LineContainsWholeValue) {
  EXPECT_EQ(LineJson({{"z", 1}, {"list", {1, 2}}}), "{\"z\":1,\"list\":[1,2]}\n");
}

TEST(JsonTextTest, IncrementalArrayMatchesWholeArray) {
  const Json json = {{{"run", "a"}, {"ranks", {1, 2}}}, {{"run", "b"}}};
  EXPECT_EQ(PrettyJsonArray(json.size(), [&](size_t i) { return json[i]; }), PrettyJson(json));
  EXPECT_EQ(PrettyJsonArray(0, [](size_t) { return Json(); }), PrettyJson(Json::array()));
}

TEST(JsonTextTest, SpellsNonFiniteNumbersLikePython) {
  EXPECT_EQ(PrettyJson(Json(std::numeric_limits<double>::quiet_NaN())), "NaN\n");
  EXPECT_EQ(PrettyJson(Json(-std::numeric_limits<double>::infinity())), "-Infinity\n");
}

TEST(JsonTextTest, ReplacesInvalidUtf8) {
  const std::string text = PrettyJson(Json("bad \xff byte"));
  EXPECT_EQ(Json::parse(text, nullptr, /*allow_exceptions=*/false), "bad \uFFFD byte");
}

}  // namespace
}  // namespace ranklog::cli
