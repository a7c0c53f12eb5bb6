#include "service/model/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace ranklog::model {
namespace {

TEST(JsonTextTest, ValuesKeepTheirTypes) {
  EXPECT_EQ(ParseJsonText("true"), Json(true));
  EXPECT_EQ(ParseJsonText("null"), Json(nullptr));
  EXPECT_EQ(ParseJsonText("9007199254740993"), Json(int64_t{9007199254740993}));
  EXPECT_EQ(ParseJsonText("-9223372036854775808"), Json(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(ParseJsonText("18446744073709551615"), Json(std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(ParseJsonText("1e300"), Json(1e300));
  EXPECT_EQ(ParseJsonText(R"("say \"hi\"\n\u00e4")"), Json("say \"hi\"\nä"));
  EXPECT_EQ(ParseJsonText(R"({"b":[1,{"c":false}],"a":{}})"),
            Json({{"b", {1, Json({{"c", false}})}}, {"a", Json::object()}}));
  EXPECT_EQ(ParseJsonText("[]"), Json::array());
}

TEST(JsonTextTest, BareWordsAreNumbers) {
  EXPECT_TRUE(std::isnan(ParseJsonText("NaN").get<double>()));
  const Json list = ParseJsonText("[Infinity,-Infinity]");
  EXPECT_EQ(list.at(0), Json(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(list.at(1), Json(-std::numeric_limits<double>::infinity()));
}

TEST(JsonTextTest, OtherTextIsDiscarded) {
  for (const std::string text :
       {"",       " ",    "tru",     "nan",        "-NaN",      "1 ",    " 1",
        "1,2",    "[1,]", "[1",      "{\"a\":1,}", "{\"a\"}",   "{a:1}", "{1:1}",
        "[1, 2]", "\"a",  "\"a\\\"", "\"\n\"",     "\"\xc3\"",  "1\n",   "\"a\"b",
        "}",      ",",    "01",      "+1",         "Infinity1", "\\"}) {
    EXPECT_TRUE(ParseJsonText(text).is_discarded()) << text;
  }
  EXPECT_TRUE(ParseJsonText(std::string("1\0", 2)).is_discarded());
  EXPECT_TRUE(ParseJsonText(std::string("\0", 1)).is_discarded());
}

TEST(JsonTextTest, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_FALSE(ParseJsonText(nested(kMaxJsonTextDepth)).is_discarded());
  EXPECT_TRUE(ParseJsonText(nested(kMaxJsonTextDepth + 2)).is_discarded());
  EXPECT_TRUE(ParseJsonText(std::string(4 << 20, '[')).is_discarded());
}

}  // namespace
}  // namespace ranklog::model
