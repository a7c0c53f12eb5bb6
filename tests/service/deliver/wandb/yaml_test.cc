#include "service/deliver/wandb/documents/yaml.h"

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

TEST(YamlTest, EscapesWhatReadersRefuse) {
  EXPECT_EQ(
      ToYaml(
          {{"a", "\x7f \xC2\x85 \xC2\x9F \xC2\xA0"},
           {"b", "\xE2\x80\xA8 \xE2\x80\xA9 \xE2\x80\xAA \xEF\xBF\xBE \xEF\xBF\xBF \xEF\xBF\xBD"}}),
      "\"a\": \"\\x7f \\x85 \\x9f \xC2\xA0\"\n"
      "\"b\": \"\\u2028 \\u2029 \xE2\x80\xAA \\ufffe \\uffff \xEF\xBF\xBD\"\n");
}

TEST(YamlTest, LongKeysAreExplicit) {
  const std::string key(1024, 'k');
  EXPECT_EQ(ToYaml({{"a", {{key, 1}}}}), "\"a\":\n  ? \"" + key + "\"\n  : 1\n");
}

TEST(YamlTest, HasWordsForWhatIsNoNumber) {
  EXPECT_EQ(ToYaml({{"a", std::nan("")}, {"b", INFINITY}, {"c", -INFINITY}}),
            "\"a\": .nan\n\"b\": .inf\n\"c\": -.inf\n");
}

}  // namespace
}  // namespace ranklog::deliver::wandb
