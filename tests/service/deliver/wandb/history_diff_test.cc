#include "service/deliver/wandb/history/history_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace ranklog::deliver::wandb {
namespace {

using ::testing::HasSubstr;

std::string Line(int step, const std::string& members = "\"loss\":0.5") {
  return absl::StrCat("{", members, ",\"_timestamp\":1.25,\"_step\":", step, "}");
}

// Returns the rows 10, 11, ... at the steps 0, 2, ...
std::vector<ExpectedLine> Expected(int rows) {
  std::vector<ExpectedLine> lines;
  for (int i = 0; i < rows; ++i) {
    lines.push_back({.row = 10 + static_cast<uint64_t>(i), .step = 2 * i, .line = Line(2 * i)});
  }
  return lines;
}

HistoryDiff Compare(const std::vector<ExpectedLine>& expected,
                    const std::vector<std::string>& lines, bool shared = false) {
  HistoryDiff diff;
  AddPage(expected, lines, shared, &diff);
  return diff;
}

// Compares one row with members `want` to the server's `got`. Returns the difference; empty if
// there is none.
std::string Difference(const std::string& want, const std::string& got,
                       const std::string& with_added = "") {
  ExpectedLine line = {.row = 3, .step = 0, .line = Line(0, want)};
  if (!with_added.empty()) line.with_added = Line(0, with_added);
  const HistoryDiff diff = Compare({line}, {Line(0, got)});
  EXPECT_EQ(diff.matching + diff.differing, 1u);
  EXPECT_EQ(diff.differing, diff.differences.size());
  return diff.differences.empty() ? "" : diff.differences[0].text;
}

TEST(HistoryDiffTest, MatchesLinesInAnyOrder) {
  const HistoryDiff diff = Compare(Expected(3), {Line(4), Line(0), Line(2)});
  EXPECT_EQ(diff.matching, 3u);
  EXPECT_EQ(diff.lines(), 3u);
  EXPECT_EQ(diff.missing + diff.differing + diff.duplicates + diff.unexpected, 0u);
}

TEST(HistoryDiffTest, GapsAreNamedByTheirRows) {
  const HistoryDiff diff = Compare(Expected(5), {Line(0), Line(6)});
  EXPECT_EQ(diff.matching, 2u);
  EXPECT_EQ(diff.missing, 3u);
  ASSERT_EQ(diff.gaps.size(), 2u);
  EXPECT_EQ(diff.gaps[0].first, 11u);
  EXPECT_EQ(diff.gaps[0].last, 12u);
  EXPECT_EQ(diff.gaps[1].first, 14u);
}

TEST(HistoryDiffTest, GapContinuesAcrossPages) {
  HistoryDiff diff;
  const std::vector<ExpectedLine> rows = Expected(4);
  AddPage({rows.data(), 2}, {}, /*shared=*/false, &diff);
  AddPage({rows.data() + 2, 2}, {}, /*shared=*/false, &diff);
  ASSERT_EQ(diff.gaps.size(), 1u);
  EXPECT_EQ(diff.gaps[0].last, 13u);
}

TEST(HistoryDiffTest, RepeatedLinesAreDuplicates) {
  const HistoryDiff diff = Compare(Expected(2), {Line(0), Line(2), Line(2), Line(2)});
  EXPECT_EQ(diff.matching, 2u);
  EXPECT_EQ(diff.duplicates, 2u);
}

TEST(HistoryDiffTest, LineWithoutRowIsUnexpected) {
  EXPECT_EQ(Compare(Expected(2), {Line(0), Line(1), Line(2)}).unexpected, 1u);
  EXPECT_EQ(Compare(Expected(1), {Line(0), "[]", "{", "{\"_step\":1e300}"}).unexpected, 3u);
}

TEST(HistoryDiffTest, ForeignLinesMayShareSteps) {
  const std::vector<std::string> lines = {Line(0), Line(0, "\"loss\":9"), Line(1), Line(2)};
  const HistoryDiff diff = Compare(Expected(2), lines, /*shared=*/true);
  EXPECT_EQ(diff.matching, 2u);
  EXPECT_EQ(diff.duplicates + diff.unexpected + diff.differing, 0u);
  EXPECT_EQ(Compare(Expected(2), lines).duplicates, 1u) << "in a run of ours alone they may not";
}

TEST(HistoryDiffTest, BareLineMatchesRefusedRow) {
  std::vector<ExpectedLine> rows = Expected(2);
  rows[1].bare = true;
  const HistoryDiff diff = Compare(rows, {Line(0), Line(2)});
  EXPECT_EQ(diff.matching, 1u);
  EXPECT_EQ(diff.bare, 1u);
}

TEST(HistoryDiffTest, ValuesAreComparedAsValues) {
  EXPECT_EQ(Difference("\"a\":1,\"b\":2.5", "\"b\":2.50,\"a\":1.0"), "");
  EXPECT_EQ(Difference("\"a\":NaN,\"b\":-Infinity", "\"a\":\"NaN\",\"b\":\"-Infinity\""), "");
  EXPECT_EQ(Difference("\"a\":NaN,\"b\":Infinity", "\"a\":NaN,\"b\":Infinity"), "");
  EXPECT_EQ(Difference(R"("t":"a \"N\" \\")", R"("t":"a \u0022N\u0022 \\")"), "");
  EXPECT_EQ(Difference("\"a\":1", "\"a\":1.0000000000000002"),
            "\"a\" is 1.0000000000000002, not 1");
  EXPECT_EQ(Difference("\"a\":NaN", "\"a\":0"), "\"a\" is 0, not \"NaN\"");
  EXPECT_EQ(Difference("\"a\":9007199254740993", "\"a\":9007199254740992"),
            "\"a\" is 9007199254740992, not 9007199254740993");
}

TEST(HistoryDiffTest, MissingOrExtraMemberDiffers) {
  EXPECT_EQ(Difference("\"a\":1,\"b\":2", "\"a\":1"), "\"b\" is missing");
  EXPECT_THAT(Difference("\"a\":1", "\"a\":1,\"b\":2"), HasSubstr("\"b\" is 2"));
  EXPECT_EQ(Difference("\"a\":1", "\"a\":1,\"_id\":7"), "") << "the server's own";
}

TEST(HistoryDiffTest, MetricsAddedByDefinitionAreOptional) {
  EXPECT_EQ(Difference("\"a\":1", "\"a\":1", "\"a\":1,\"x\":4"), "");
  EXPECT_EQ(Difference("\"a\":1", "\"a\":1,\"x\":4", "\"a\":1,\"x\":4"), "");
  EXPECT_EQ(Difference("\"a\":1", "\"a\":1,\"x\":5", "\"a\":1,\"x\":4"), "\"x\" is 5, not 4");
}

TEST(HistoryDiffTest, KeepsFirstDifferencesAndCountsAll) {
  const std::vector<ExpectedLine> rows = Expected(100);
  std::vector<std::string> lines;
  for (int i = 0; i < 100; ++i) lines.push_back(Line(2 * i, "\"loss\":7"));
  const HistoryDiff diff = Compare(rows, lines);
  EXPECT_EQ(diff.differing, 100u);
  ASSERT_EQ(diff.differences.size(), HistoryDiff::kKept);
  EXPECT_EQ(diff.differences[0].row, 10u);
}

}  // namespace
}  // namespace ranklog::deliver::wandb
