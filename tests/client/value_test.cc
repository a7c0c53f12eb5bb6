#include "ranklog/value.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/base/text/json.h"

namespace ranklog {
namespace {

std::string Json(const Value& value) {
  std::string json;
  EXPECT_EQ(internal::AppendJson(value.field(), &json), "");
  return json;
}

Value Nested() {
  return Value::Object(
      {{"list", Value::List({1, "two", Value::List({}), Value()})},
       {"", ""},
       {"object", Value::Object({{"flag", true}, {"text", std::string(99, 'x')}})}});
}

constexpr std::string_view kNested =
    R"({"list":[1,"two",[],null],"":"","object":{"flag":true,"text":")";

TEST(ValueTest, HasWhatItWasMadeFrom) {
  EXPECT_EQ(Json(Value()), "null");
  EXPECT_EQ(Json(true), "true");
  EXPECT_EQ(Json(-3), "-3");
  EXPECT_EQ(Json(UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(Json(0.5F), "0.5");
  EXPECT_EQ(Json(static_cast<const char*>(nullptr)), "\"\"");
  EXPECT_EQ(Json(std::string_view("text").substr(1)), "\"ext\"");
  EXPECT_EQ(Json(Nested()).substr(0, kNested.size()), kNested);
}

TEST(ValueTest, CopiesDoNotShareMemory) {
  Value copy;
  {
    Value value = Nested();
    copy = value;
    value = "another";
    EXPECT_EQ(Json(value), "\"another\"");
  }
  EXPECT_EQ(Json(copy), Json(Nested()));
  const Value& same = copy;
  copy = same;
  EXPECT_EQ(Json(copy), Json(Nested()));
}

TEST(ValueTest, MovedFromIsNull) {
  Value value = Nested();
  const Value moved = std::move(value);
  EXPECT_EQ(Json(moved), Json(Nested()));
  EXPECT_EQ(Json(value), "null");  // NOLINT(bugprone-use-after-move)
}

// A value may be deeper than the stack, although the library refuses it then.
TEST(ValueTest, DepthDoesNotUseUpTheStack) {
  Value deep;
  for (int i = 0; i < 1'000'000; ++i) {
    std::vector<Value> list;
    list.push_back(std::move(deep));
    deep = Value::List(std::move(list));
  }
  const Value copy = deep;  // NOLINT(performance-unnecessary-copy-initialization)
  std::string json;
  EXPECT_EQ(internal::AppendJson(copy.field(), &json), "more than 32 levels of lists and objects");
}

TEST(MetricTest, SmallIntegersAreNumbers) {
  constexpr int64_t kExact = int64_t{1} << 53;
  EXPECT_EQ(Metric("a", kExact).kind, RANKLOG_NUMBER);
  EXPECT_EQ(Metric("a", -kExact).kind, RANKLOG_NUMBER);
  EXPECT_EQ(Metric("a", Value(7)).kind, RANKLOG_NUMBER);
  EXPECT_EQ(Metric("a", Value(7)).number, 7);
  EXPECT_EQ(Metric("a", kExact + 1).kind, RANKLOG_SIGNED);
  EXPECT_EQ(Metric("a", Value(-kExact - 1)).kind, RANKLOG_SIGNED);
  EXPECT_EQ(Metric("a", UINT64_MAX).kind, RANKLOG_UNSIGNED);
}

TEST(MetricTest, ValueGetsTheKeyOfTheMetric) {
  const Value value = Value::Object({{"inner", 1}});
  const Metric metric("outer", value);
  EXPECT_EQ(std::string_view(metric.key, metric.key_bytes), "outer");
  EXPECT_EQ(metric.items, value.field().items);
}

}  // namespace
}  // namespace ranklog
