#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "service/deliver/json_writer.h"
#include "service/import/json_values.h"
#include "service/import/record_object.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::imports {
namespace {

using Kind = RowValue::Kind;

std::string Text(const model::Json& json) { return deliver::ToJsonText(json); }

TEST(ImportValuesTest, NumbersAreExactOrText) {
  EXPECT_EQ(ToRowValue("0.1").number, 0.1);
  EXPECT_EQ(ToRowValue("-3").number, -3);
  EXPECT_EQ(ToRowValue("1e-7").number, 1e-7);
  EXPECT_EQ(ToRowValue("9007199254740992").number, 9007199254740992.0);
  EXPECT_EQ(ToRowValue("9007199254740993").kind, Kind::kJson);
  EXPECT_EQ(ToRowValue("9007199254740993").text, "9007199254740993");
  EXPECT_TRUE(std::isnan(ToRowValue("NaN").number));
  EXPECT_EQ(ToRowValue("-Infinity").number, -INFINITY);
}

TEST(ImportValuesTest, OtherValuesAreText) {
  EXPECT_EQ(ToRowValue(R"("a \"b\" c")").kind, Kind::kText);
  EXPECT_EQ(ToRowValue(R"("a \"b\" c")").text, R"(a "b" c)");
  EXPECT_EQ(ToRowValue(R"({"a b": [1, "x, \" y"], "c": NaN})").text,
            R"({"a b":[1,"x, \" y"],"c":NaN})");
  EXPECT_EQ(ToRowValue("true").kind, Kind::kJson);
  EXPECT_EQ(ToRowValue("{").kind, Kind::kNotJson);
  EXPECT_EQ(ToRowValue("").kind, Kind::kNotJson);
  EXPECT_EQ(ToRowValue("inf").kind, Kind::kNotJson);
}

template <typename Record>
void Set(std::vector<std::string> path, const std::string& json, Record* record) {
  auto* const item = record->add_update();
  *item->mutable_nested_key() = {path.begin(), path.end()};
  item->set_value_json(json);
}

TEST(RecordObjectTest, ConfigMergesObjects) {
  RecordObject config(/*merges=*/true);
  wandb_internal::ConfigRecord record;
  Set({"opt"}, R"({"name": "adam", "lr": {"base": 1}})", &record);
  Set({"opt", "lr", "warm"}, "2", &record);
  Set({"opt"}, R"({"lr": {"base": 3}, "none": {}})", &record);
  config.Apply(record);
  EXPECT_EQ(Text(config.TakeChanged()), R"({"opt":{"name":"adam","lr":{"base":3,"warm":2}}})");
}

TEST(RecordObjectTest, SummaryReplacesObjects) {
  RecordObject summary(/*merges=*/false);
  wandb_internal::SummaryRecord record;
  Set({"loss", "min"}, "1", &record);
  Set({"loss", "max"}, "2", &record);
  Set({"acc"}, R"({"a": 1})", &record);
  Set({"acc"}, R"({"b": 1})", &record);
  summary.Apply(record);
  EXPECT_EQ(Text(summary.TakeChanged()), R"({"loss":{"min":1,"max":2},"acc":{"b":1}})");
}

TEST(RecordObjectTest, GivesOnlyChangesWithWholeMembers) {
  RecordObject config(/*merges=*/true);
  wandb_internal::ConfigRecord first;
  Set({"a", "x"}, "1", &first);
  Set({"b"}, "1", &first);
  config.Apply(first);
  config.TakeChanged();
  wandb_internal::ConfigRecord second;
  Set({"a", "y"}, "2", &second);
  second.add_remove()->set_key("b");
  config.Apply(second);
  EXPECT_EQ(Text(config.TakeChanged()), R"({"a":{"x":1,"y":2},"b":null})");
  EXPECT_EQ(Text(config.TakeChanged()), "{}");
}

}  // namespace
}  // namespace ranklog::imports
