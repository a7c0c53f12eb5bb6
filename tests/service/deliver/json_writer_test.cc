#include "service/deliver/json/json_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace ranklog::deliver {
namespace {

std::string Number(double value) {
  std::string out;
  AppendNumber(value, &out);
  return out;
}
std::string Quoted(absl::string_view text) {
  std::string out;
  AppendString(text, &out);
  return out;
}
std::string Seconds(int64_t micros) {
  std::string out;
  AppendSeconds(micros, &out);
  return out;
}

TEST(JsonWriterTest, WritesWholeNumbersAsIntegers) {
  EXPECT_EQ(Number(3), "3");
  EXPECT_EQ(Number(-100000), "-100000");
  EXPECT_EQ(Number(0), "0");
  EXPECT_EQ(Number(-0.0), "-0.0");
  EXPECT_EQ(Number(9007199254740991.0), "9007199254740991");
}

TEST(JsonWriterTest, WritesShortestTextForDoubles) {
  EXPECT_EQ(Number(0.1), "0.1");
  EXPECT_EQ(Number(1e300), "1e+300");
  EXPECT_EQ(Number(5e-324), "5e-324");
}

TEST(JsonWriterTest, DoublesSurviveRoundTrip) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t bits = random();
    double value;
    memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(std::strtod(Number(value).c_str(), nullptr), value) << Number(value);
  }
}

TEST(JsonWriterTest, WritesNonFiniteNumbersUnquoted) {
  EXPECT_EQ(Number(std::nan("")), "NaN");
  EXPECT_EQ(Number(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(Number(-std::numeric_limits<double>::infinity()), "-Infinity");
}

TEST(JsonWriterTest, WritesMicrosecondsAsExactSeconds) {
  EXPECT_EQ(Seconds(1767322800123456), "1767322800.123456");
  EXPECT_EQ(Seconds(1500000), "1.5");
  EXPECT_EQ(Seconds(1), "0.000001");
  EXPECT_EQ(Seconds(0), "0");
  EXPECT_EQ(Seconds(-1500000), "-1.5");
}

TEST(JsonWriterTest, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(Quoted("a\"b\\c\n\t\r\x01\x1f/"), R"("a\"b\\c\n\t\r\u0001\u001f/")");
  EXPECT_EQ(Quoted("caf\xc3\xa9 \xf0\x9f\x9a\x80"), "\"caf\xc3\xa9 \xf0\x9f\x9a\x80\"");
}

TEST(JsonWriterTest, ReplacesInvalidUtf8) {
  EXPECT_EQ(Quoted("a\xff"
                   "b"),
            "\"a\xef\xbf\xbd"
            "b\"");
  EXPECT_EQ(Quoted("\xc3"), "\"\xef\xbf\xbd\"");                      // truncated
  EXPECT_EQ(Quoted("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");      // overlong
  EXPECT_EQ(Quoted("\xed\xa0\x80").find("\xed"), std::string::npos);  // a surrogate
}

TEST(JsonWriterTest, WritesNestedValuesInTheirOrder) {
  const model::Json value = {{"z", 1},
                             {"a", {true, nullptr, -2, 18446744073709551615u, 0.5, "x"}},
                             {"o", model::Json::object()}};
  EXPECT_EQ(ToJsonText(value), R"({"z":1,"a":[true,null,-2,18446744073709551615,0.5,"x"],"o":{}})");
}

TEST(RowFormatTest, EscapesMembersForEnclosingString) {
  const RowFormat format(std::vector<std::string>{"loss", "a\"b", "_step"}, {"_step"});
  const std::vector<double> values = {0.5, 2, 9};
  std::string out = "x";
  const size_t bytes = format.Append(values.data(), &out);
  EXPECT_EQ(out, R"(x\"loss\":0.5,\"a\\\"b\":2,)");
  EXPECT_EQ(bytes, std::string(R"("loss":0.5,"a\"b":2,)").size());
}

TEST(RowFormatTest, HasRoomForTheLongestNumbers) {
  const std::vector<std::string> keys(100, "k");
  const std::vector<double> values(100, -1.7976931348623157e+308);
  std::string out;
  RowFormat(keys, {}).Append(values.data(), &out);
  EXPECT_EQ(out.size(), 100 * std::string("\\\"k\\\":-1.7976931348623157e+308,").size());
}

}  // namespace
}  // namespace ranklog::deliver
