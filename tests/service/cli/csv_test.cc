#include "service/cli/output/csv.h"

#include <gtest/gtest.h>

namespace ranklog::cli {
namespace {

std::string Field(absl::string_view text) {
  std::string out;
  AppendCsvField(text, &out);
  return out;
}

TEST(CsvTest, PlainFieldsAreNotQuoted) {
  EXPECT_EQ(Field("train/loss"), "train/loss");
  EXPECT_EQ(Field(""), "");
  EXPECT_EQ(Field("with a blank"), "with a blank");
}

TEST(CsvTest, QuotesFieldsWithSeparators) {
  EXPECT_EQ(Field("a,b"), "\"a,b\"");
  EXPECT_EQ(Field("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(Field("cr\r"), "\"cr\r\"");
}

TEST(CsvTest, DoublesQuotesInside) { EXPECT_EQ(Field("say \"hi\""), "\"say \"\"hi\"\"\""); }

}  // namespace
}  // namespace ranklog::cli
