#include "service/deliver/clickhouse/format/native.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace ranklog::deliver::clickhouse {
namespace {

using std::string_literals::operator""s;

std::string Block(size_t columns, size_t rows, absl::FunctionRef<void(NativeBlock&)> fill) {
  std::string bytes;
  NativeBlock block(columns, rows,
                    [&](absl::string_view piece) { bytes.append(piece.data(), piece.size()); });
  fill(block);
  block.Flush();
  return bytes;
}

// tests/interop/clickhouse_runs.py reads such blocks with the engine; this one shows the bytes.
TEST(NativeBlockTest, WritesColumnsOneAfterTheOther) {
  Dictionary keys;
  const std::vector<uint32_t> indexes = {keys.IndexOf("loss"), keys.IndexOf("x")};
  const std::string bytes = Block(3, 2, [&](NativeBlock& block) {
    block.Add("metric", keys, indexes);
    block.Add("step", std::vector<int64_t>{1, -1});
    block.Add("text", std::vector<std::string>{"", "a\n"});
  });
  EXPECT_EQ(bytes,
            "\3\2"
            "\6metric\x16LowCardinality(String)"
            "\1\0\0\0\0\0\0\0"  // version of the dictionary
            "\0\6\0\0\0\0\0\0"  // indexes of one byte; the dictionary follows
            "\3\0\0\0\0\0\0\0"  // its texts
            "\0\4loss\1x"
            "\2\0\0\0\0\0\0\0"  // rows
            "\1\2"
            "\4step\5Int64\1\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
            "\4text\6String\0\2a\n"s);
}

TEST(NativeBlockTest, HasEachOfAFewNumbersOnce) {
  const std::vector<uint32_t> numbers = {7, 0, 7};
  const std::string bytes = Block(1, 3, [&](NativeBlock& block) {
    block.AddFew("rank", numbers, std::vector<uint32_t>{0, 1, 2});
  });
  EXPECT_EQ(bytes,
            "\1\3\4rank\x16LowCardinality(UInt32)"
            "\1\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
            "\0\0\0\0\7\0\0\0"
            "\3\0\0\0\0\0\0\0\1\0\1"s);
}

TEST(DictionaryTest, IndexesGrowWithTheTexts) {
  Dictionary keys;
  for (int i = 0; i < 300; ++i) keys.IndexOf(std::to_string(i));
  EXPECT_EQ(keys.IndexOf("299"), 300u);
  const std::string bytes =
      Block(1, 1, [&](NativeBlock& block) { block.Add("m", keys, std::vector<uint32_t>{300}); });
  EXPECT_EQ(bytes.substr(bytes.size() - 2), "\x2c\1"s) << "two bytes per index";
}

}  // namespace
}  // namespace ranklog::deliver::clickhouse
