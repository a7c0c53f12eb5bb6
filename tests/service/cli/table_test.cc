#include "service/cli/output/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_split.h"

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

TEST(TableTest, AlignsWideCharactersEmojiAndMarks) {
  Table table({"NAME", "STATE"});
  table.AddRow({"实验", "x"});
  table.AddRow({"a\u0301bcd", "y"});
  table.AddRow({"\U0001F642ok", "z"});
  EXPECT_EQ(table.ToString({}), "NAME  STATE\n实验  x\na\u0301bcd  y\n\U0001F642ok  z\n");
}

TEST(TableTest, ShowsControlCharactersAsQuestionMarks) {
  Table table({"NAME"});
  table.AddRow({"a\x1b[2J\nb"});
  table.AddRow({"c\u009b2J\u00a0d"});  // one character that means ESC [, and a printable one
  EXPECT_EQ(table.ToString({}), "NAME\na?[2J?b\nc?2J\u00a0d\n");
}

class NarrowTableTest : public ::testing::Test {
 protected:
  NarrowTableTest()
      : table_({"RUN", "NAME", "ROWS", "STARTED"},
               {{"STARTED", [](const std::string& time) { return time.substr(5, 11); }},
                {"NAME"},
                {"no such column"}}) {
    table_.AddRow({"llama-lr3e-4", "llama", "1000", "2026-11-22 13:23:03"});
  }
  std::string At(int width, bool interactive = true) const {
    return table_.ToString({.interactive = interactive, .width = width});
  }

  Table table_;
};

TEST_F(NarrowTableTest, DropsNoMoreThanNecessary) {
  EXPECT_EQ(At(80),
            "RUN           NAME   ROWS  STARTED\n"
            "llama-lr3e-4  llama  1000  2026-11-22 13:23:03\n");
  EXPECT_EQ(At(46), At(80)) << "fits exactly";
  EXPECT_EQ(At(45),
            "RUN           NAME   ROWS  STARTED\n"
            "llama-lr3e-4  llama  1000  11-22 13:23\n");
  EXPECT_EQ(At(37),
            "RUN           ROWS  STARTED\n"
            "llama-lr3e-4  1000  11-22 13:23\n");
}

TEST_F(NarrowTableTest, TruncatesLongTextsInMiddle) {
  table_.AddRow({std::string(30, 'a') + "实验" + std::string(30, 'b'), "x", "123456789",
                 "2026-11-22 14:00:00"});
  EXPECT_EQ(At(40),
            "RUN                    ROWS  STARTED\n"
            "llama-lr3e-4           1000  11-22 13:23\n"
            "aaaaaaa...bbbbbb  123456789  11-22 14:00\n");
  for (int width = 40; width < 80; ++width) {
    for (const absl::string_view line : absl::StrSplit(At(width), '\n')) {
      EXPECT_LE(TextWidth(line), width) << line;
    }
  }
}

TEST_F(NarrowTableTest, NonInteractiveOutputIsComplete) {
  EXPECT_EQ(At(20, /*interactive=*/false), At(80));
}

TEST(CutMiddleTest, WidthIsCountedInColumns) {
  EXPECT_EQ(CutMiddle("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(CutMiddle("abcdefghi", 8), "abc...hi");
  EXPECT_EQ(CutMiddle("abcdefghi", 5), "a...i");
  EXPECT_EQ(CutMiddle("实验实验实验", 9), "实...验") << "two columns each";
}

}  // namespace
}  // namespace ranklog::cli
