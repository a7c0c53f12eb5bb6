#include "service/deliver/wandb/yaml.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ranklog::deliver::wandb {
namespace {

TEST(YamlTest, WritesBlocks) {
  EXPECT_EQ(ToYaml({{"lr", {{"value", 0.1}}},
                    {"list", {1, "two: \"x\"", true, nullptr, {{"a", {{"b", 2}}}}}},
                    {"empty", model::Json::object()},
                    {"none", model::Json::array()}}),
            "\"lr\":\n"
            "  \"value\": 0.1\n"
            "\"list\":\n"
            "  - 1\n"
            "  - \"two: \\\"x\\\"\"\n"
            "  - true\n"
            "  - null\n"
            "  -\n"
            "    \"a\":\n"
            "      \"b\": 2\n"
            "\"empty\": {}\n"
            "\"none\": []\n");
}

TEST(YamlTest, HasWordsForWhatIsNoNumber) {
  EXPECT_EQ(ToYaml({{"a", std::nan("")}, {"b", INFINITY}, {"c", -INFINITY}}),
            "\"a\": .nan\n\"b\": .inf\n\"c\": -.inf\n");
}

}  // namespace
}  // namespace ranklog::deliver::wandb
