#include "service/cli/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::cli {
namespace {

TEST(TableTest, AlignsTextLeftAndNumbersRight) {
  Table table({"NAME", "ROWS"});
  table.AddRow({"tiny", "5"});
  table.AddRow({"a longer one", "12345"});
  EXPECT_EQ(table.ToString({}),
            "NAME           ROWS\n"
            "tiny              5\n"
            "a longer one  12345\n");
}

TEST(TableTest, CountsCharactersNotBytes) {
  Table table({"NAME", "STATE"});
  table.AddRow({"größe", "x"});
  table.AddRow({"abcde", "y"});
  EXPECT_EQ(table.ToString({}), "NAME   STATE\ngröße  x\nabcde  y\n");
}

TEST(TableTest, ShowsControlCharactersAsQuestionMarks) {
  Table table({"NAME"});
  table.AddRow({"a\x1b[2J\nb"});
  EXPECT_EQ(table.ToString({}), "NAME\na?[2J?b\n");
}

}  // namespace
}  // namespace ranklog::cli
