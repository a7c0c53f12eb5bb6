#include "service/model/line_editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"

namespace ranklog::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class LineEditorTest : public ::testing::Test {
 protected:
  // All lines, after what they have become.
  std::map<uint64_t, std::string> Lines(LineEditor* editor) {
    for (const ConsoleLine& line : editor->TakeChanged()) lines_[line.number] = line.text;
    return lines_;
  }
  std::map<uint64_t, std::string> Lines(absl::string_view text) {
    editor_.Write(text, 5);
    return Lines(&editor_);
  }

  uint64_t next_ = 0;
  LineEditor editor_{false, &next_};
  std::map<uint64_t, std::string> lines_;
};

TEST_F(LineEditorTest, LinesAreNumbered) {
  EXPECT_THAT(Lines("one\ntwo\nthr"), ElementsAre(Pair(0, "one"), Pair(1, "two"), Pair(2, "thr")));
  editor_.Write("ee", 9);
  const auto changed = editor_.TakeChanged();
  ASSERT_THAT(changed, SizeIs(1)) << "only what changed";
  EXPECT_EQ(changed[0].number, 2u);
  EXPECT_EQ(changed[0].time_us, 5) << "the time of the first character";
  EXPECT_EQ(changed[0].text, "three");
  EXPECT_THAT(editor_.TakeChanged(), IsEmpty());
}

TEST_F(LineEditorTest, AProgressBarIsOneLine) {
  for (int percent = 0; percent <= 100; ++percent) {
    editor_.Write(absl::StrCat("\r", percent, " %"), 1);
  }
  EXPECT_THAT(Lines("\ndone\n"), ElementsAre(Pair(0, "100 %"), Pair(1, "done")));
}

TEST_F(LineEditorTest, AShorterTextLeavesTheRestOfTheLine) {
  EXPECT_THAT(Lines("abcdef\rxy"), ElementsAre(Pair(0, "xycdef")));
}

TEST_F(LineEditorTest, TheCursorMovesUpAndDown) {
  EXPECT_THAT(Lines("outer 0\ninner 0\x1b[A\router 1\x1b[B\rinner 9\x1b[1A\router 2\n\n"),
              ElementsAre(Pair(0, "outer 2"), Pair(1, "inner 9")));
}

TEST_F(LineEditorTest, BlankLinesCountBeforeText) {
  EXPECT_THAT(Lines("\n\n"), IsEmpty());
  EXPECT_THAT(Lines("x\n\n"), ElementsAre(Pair(0, ""), Pair(1, ""), Pair(2, "x")));
}

TEST_F(LineEditorTest, OtherEscapesAreText) {
  EXPECT_THAT(Lines("\x1b[31mred\x1b[0m \x1b]8\x1b"),
              ElementsAre(Pair(0, "\x1b[31mred\x1b[0m \x1b]8")));
}

TEST_F(LineEditorTest, CharactersMayComeInParts) {
  const std::string text = "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82\n";
  for (const char byte : text) editor_.Write(absl::string_view(&byte, 1), 1);
  EXPECT_THAT(Lines(""), ElementsAre(Pair(0, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82")));
}

TEST_F(LineEditorTest, WhatIsNoUtf8IsReplaced) {
  EXPECT_THAT(Lines("a\xff"
                    "b\xc3"
                    "c\xed\xa0\x80"
                    "d\xc0\xaf\n"),
              ElementsAre(Pair(0,
                               "a\xef\xbf\xbd"
                               "b\xef\xbf\xbd"
                               "c\xef\xbf\xbd"
                               "d\xef\xbf\xbd"
                               "\xef\xbf\xbd")));
}

TEST_F(LineEditorTest, ALineEndsAtItsLimit) {
  const auto lines = Lines(std::string(LineEditor::kMostCharacters + 100, 'x') + "\ny\n");
  EXPECT_EQ(lines.at(0).size(), LineEditor::kMostCharacters);
  EXPECT_EQ(lines.at(1), "y");
}

TEST_F(LineEditorTest, ManyLinesPassTheWindow) {
  std::string text;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&text, "line ", i, "\n");
  const auto lines = Lines(text);
  ASSERT_THAT(lines, SizeIs(1000));
  EXPECT_EQ(lines.at(0), "line 0");
  EXPECT_EQ(lines.at(999), "line 999");
}

TEST_F(LineEditorTest, TwoEditorsShareTheNumbers) {
  LineEditor errors(true, &next_);
  editor_.Write("out\n", 1);
  errors.Write("err\n", 2);
  editor_.Write("more\n", 3);
  Lines(&errors);
  EXPECT_THAT(Lines(&editor_), ElementsAre(Pair(0, "out"), Pair(1, "err"), Pair(2, "more")));
}

}  // namespace
}  // namespace ranklog::model
