#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "service/deliver/json/json_writer.h"
#include "service/import/records/json_values.h"
#include "service/import/records/record_object.h"
#include "service/import/records/record_values.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::imports {
namespace {

using ::testing::ElementsAre;
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

TEST(RecordValuesTest, ReadsWhatProtobufWrote) {
  wandb_internal::Record record;
  record.set_num(300);
  wandb_internal::HistoryRecord& history = *record.mutable_history();
  history.mutable_step()->set_num(-7);
  history.add_item()->set_key("flat");
  history.mutable_item(0)->set_value_json(std::string(300, '1'));
  history.add_item()->add_nested_key("a");
  history.mutable_item(1)->add_nested_key("");
  history.mutable_item(1)->set_key("not used");
  history.add_item();
  record.mutable__info()->set_stream_id("s");
  const std::string bytes = record.SerializeAsString();

  const ValueRecord found = FindValueRecord(bytes);
  EXPECT_EQ(found.field, wandb_internal::Record::kHistoryFieldNumber);
  RecordValues values;
  ASSERT_TRUE(values.ReadHistory(found.content));
  EXPECT_EQ(values.step(), -7);
  ASSERT_EQ(values.set().size(), 3);
  EXPECT_THAT(values.PathOf(values.set()[0]), ElementsAre("flat"));
  EXPECT_EQ(values.set()[0].json, std::string(300, '1'));
  EXPECT_THAT(values.PathOf(values.set()[1]), ElementsAre("a", ""));
  EXPECT_THAT(values.PathOf(values.set()[2]), ElementsAre(""));
}

TEST(RecordValuesTest, FindsNoValuesInOtherRecords) {
  wandb_internal::Record record;
  record.mutable_exit()->set_exit_code(1);
  EXPECT_EQ(FindValueRecord(record.SerializeAsString()).field, 0);
  EXPECT_EQ(FindValueRecord("").field, 0);
}

// A record that is cut is a damaged one, or one with fewer values.
TEST(RecordValuesTest, RefusesDamage) {
  wandb_internal::HistoryRecord history;
  history.add_item()->set_key("a");
  history.mutable_item(0)->set_value_json("1");
  const std::string bytes = history.SerializeAsString();
  RecordValues values;
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_FALSE(values.ReadHistory(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(values.ReadHistory(bytes + '\0'));  // no field has the number 0
  history.mutable_item(0)->mutable_key()->assign("\xff");
  EXPECT_FALSE(values.ReadHistory(history.SerializePartialAsString()));
}

template <typename Record>
void Set(std::vector<std::string> path, const std::string& json, Record* record) {
  auto* const item = record->add_update();
  *item->mutable_nested_key() = {path.begin(), path.end()};
  item->set_value_json(json);
}

template <typename Record>
void Apply(const Record& record, RecordObject* object) {
  const std::string bytes = record.SerializeAsString();
  RecordValues values;
  ASSERT_TRUE(values.ReadUpdates(bytes));
  object->Apply(values);
}

TEST(RecordObjectTest, ConfigMergesObjects) {
  RecordObject config(/*merges=*/true);
  wandb_internal::ConfigRecord record;
  Set({"opt"}, R"({"name": "adam", "lr": {"base": 1}})", &record);
  Set({"opt", "lr", "warm"}, "2", &record);
  Set({"opt"}, R"({"lr": {"base": 3}, "none": {}})", &record);
  Apply(record, &config);
  EXPECT_EQ(Text(config.TakeChanged()), R"({"opt":{"name":"adam","lr":{"base":3,"warm":2}}})");
}

TEST(RecordObjectTest, SummaryReplacesObjects) {
  RecordObject summary(/*merges=*/false);
  wandb_internal::SummaryRecord record;
  Set({"loss", "min"}, "1", &record);
  Set({"loss", "max"}, "2", &record);
  Set({"acc"}, R"({"a": 1})", &record);
  Set({"acc"}, R"({"b": 1})", &record);
  Apply(record, &summary);
  EXPECT_EQ(Text(summary.TakeChanged()), R"({"loss":{"min":1,"max":2},"acc":{"b":1}})");
}

TEST(RecordObjectTest, GivesOnlyChangesWithWholeMembers) {
  RecordObject config(/*merges=*/true);
  wandb_internal::ConfigRecord first;
  Set({"a", "x"}, "1", &first);
  Set({"b"}, "1", &first);
  Apply(first, &config);
  config.TakeChanged();
  wandb_internal::ConfigRecord second;
  Set({"a", "y"}, "2", &second);
  second.add_remove()->set_key("b");
  Apply(second, &config);
  EXPECT_EQ(Text(config.TakeChanged()), R"({"a":{"x":1,"y":2},"b":null})");
  EXPECT_EQ(Text(config.TakeChanged()), "{}");
}

}  // namespace
}  // namespace ranklog::imports
