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

TEST(TableTest, CountsTheColumnsOfEastAsianCharactersEmojiAndMarks) {
  Table table({"NAME", "STATE"});
  table.AddRow({"实验", "x"});
  table.AddRow({"a\u0301bcd", "y"});
  table.AddRow({"\U0001F642ok", "z"});
  EXPECT_EQ(table.ToString({}), "NAME  STATE\n实验  x\na\u0301bcd  y\n\U0001F642ok  z\n");
}

TEST(TableTest, ShowsControlCharactersAsQuestionMarks) {
  Table table({"NAME"});
  table.AddRow({"a\x1b[2J\nb"});
  table.AddRow({"c\u009b2J\u00a0d"});  // one character for ESC [, and one that is none
  EXPECT_EQ(table.ToString({}), "NAME\na?[2J?b\nc?2J\u00a0d\n");
}

}  // namespace
}  // namespace ranklog::cli
