#include "service/model/ordered_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "service/model/run.h"

namespace ranklog::model {
namespace {

using ::testing::ElementsAre;

std::string Name(int i) { return "metric/" + std::to_string(i); }

// Has the members "metric/0" to "metric/<count - 1>", each with its number.
Json Numbered(int count) {
  Json object = Json::object();
  for (int i = 0; i < count; ++i) object[Name(i)] = i;
  return object;
}

void ExpectNumbered(const Json& object, const std::vector<int>& numbers) {
  std::vector<int> found;
  for (const auto& [key, value] : object.items()) {
    EXPECT_EQ(key, Name(value.get<int>()));
    found.push_back(value.get<int>());
  }
  EXPECT_EQ(found, numbers);
  for (int number : numbers) {
    ASSERT_TRUE(object.contains(Name(number))) << number;
    EXPECT_EQ(object[Name(number)], number);
  }
}

// A small object finds members by a scan, a large one by an index.
class OrderedObjectTest : public ::testing::TestWithParam<int> {
 protected:
  std::vector<int> Numbers(int from = 0) const {
    std::vector<int> numbers;
    for (int i = from; i < GetParam(); ++i) numbers.push_back(i);
    return numbers;
  }
};

TEST_P(OrderedObjectTest, KeepsTheOrderAndFindsAll) {
  const Json object = Numbered(GetParam());
  ExpectNumbered(object, Numbers());
  EXPECT_FALSE(object.contains("absent"));
  EXPECT_EQ(object.find("absent"), object.end());
  EXPECT_EQ(object.value("absent", -1), -1);
  EXPECT_EQ(object.count(Name(0)), 1u);
}

TEST_P(OrderedObjectTest, OverwritesInPlace) {
  Json object = Numbered(GetParam());
  object[Name(0)] = "new";
  EXPECT_EQ(object.begin().key(), Name(0));
  EXPECT_EQ(object.begin().value(), "new");
  EXPECT_EQ(object.size(), Numbers().size());
}

TEST_P(OrderedObjectTest, ErasesByKeyAndPosition) {
  Json object = Numbered(GetParam());
  EXPECT_EQ(object.erase(Name(0)), 1u);
  EXPECT_EQ(object.erase(Name(0)), 0u);
  EXPECT_FALSE(object.contains(Name(0)));
  ExpectNumbered(object, Numbers(1));
  object.erase(object.begin());
  ExpectNumbered(object, Numbers(2));
  object[Name(0)] = 0;
  EXPECT_EQ(object[Name(0)], 0);
  EXPECT_EQ(object.size(), Numbers(1).size());
  object.clear();
  EXPECT_FALSE(object.contains(Name(2)));
}

TEST_P(OrderedObjectTest, CopiesAndMovesKeepTheirMembers) {
  Json object = Numbered(GetParam());
  Json copy = object;
  object.erase(Name(1));
  ExpectNumbered(copy, Numbers());
  EXPECT_NE(copy, object);
  const Json moved = std::move(copy);
  ExpectNumbered(moved, Numbers());
}

TEST_P(OrderedObjectTest, SurvivesCborAndTextRoundTrip) {
  const Json object = Numbered(GetParam());
  EXPECT_EQ(Json::from_cbor(Json::to_cbor(object)), object);
  EXPECT_EQ(Json::parse(object.dump()), object);
}

INSTANTIATE_TEST_SUITE_P(Sizes, OrderedObjectTest, ::testing::Values(3, 15, 16, 17, 33, 1000));

TEST(OrderedObjectTest, UpdateOverwritesAndAppends) {
  Json object = {{"b", 1}, {"a", 2}};
  object.update({{"c", 3}, {"b", 4}});
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("b", "a", "c"));
  EXPECT_EQ(object["b"], 4);
}

// This took minutes when each member was found by a scan.
TEST(OrderedObjectTest, TakesHundredsOfThousandsOfMembers) {
  const Json object = Numbered(300'000);
  EXPECT_EQ(object[Name(299'999)], 299'999);
  EXPECT_EQ(object.size(), 300'000u);
}

}  // namespace
}  // namespace ranklog::model
