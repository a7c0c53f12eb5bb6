#include "service/deliver/wandb/documents/document_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace ranklog::deliver::wandb {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(DocumentDiffTest, ReportsMissingDifferingAndUnexpectedKeys) {
  const DocumentDiff diff =
      CompareDocuments(R"({"lr": 0.1, "layers": 4, "name": "tiny", "same": {"a": [1, null]}})",
                       R"({"lr": 0.2, "layers": 4.0, "same": {"a": [1.0, null]}, "new": "x"})", {});
  EXPECT_TRUE(diff.compared);
  EXPECT_FALSE(diff.ok());
  EXPECT_EQ(diff.matching, 2u);
  EXPECT_EQ(diff.missing, 1u);
  EXPECT_EQ(diff.differing, 1u);
  EXPECT_EQ(diff.unexpected, 1u);
  EXPECT_EQ(diff.keys(), 4u);
  EXPECT_THAT(diff.problems, ElementsAre("\"lr\" is 0.2, not 0.1", "\"name\" is missing",
                                         "\"new\" is \"x\", but was not sent"));
}

// A server may return such nesting instead of a document, or as a line of the history.
TEST(DocumentDiffTest, RejectsDeeplyNestedDocument) {
  const std::string nested =
      absl::StrCat("{\"a\":", std::string(2000000, '['), std::string(2000000, ']'), "}");
  const DocumentDiff diff = CompareDocuments(R"({"a": 1})", nested, {});
  EXPECT_EQ(diff.missing, 1u);
  EXPECT_EQ(diff.unexpected, 0u);
}

TEST(DocumentDiffTest, UnwrapsConfigValues) {
  const DocumentOptions wrapped = {.wrapped = true, .shared = false, .free = {}};
  const std::string sent = R"({"lr": {"value": 0.1}, "value": {"value": {"value": 1}}})";
  EXPECT_TRUE(CompareDocuments(sent,
                               R"({"lr": {"value": 0.1, "desc": null},
                                   "value": {"desc": "", "value": {"value": 1}}})",
                               wrapped)
                  .ok());
  EXPECT_FALSE(
      CompareDocuments(sent, R"({"lr": {"value": 0.1}, "value": {"value": 1}})", wrapped).ok());
}

TEST(DocumentDiffTest, AcceptsNonFiniteNumbersAsText) {
  EXPECT_TRUE(CompareDocuments(R"({"a": NaN, "b": -Infinity, "c": {"min": NaN}})",
                               R"({"a": "NaN", "b": "-Infinity", "c": {"min": "NaN"}})", {})
                  .ok());
  EXPECT_FALSE(CompareDocuments(R"({"a": NaN})", R"({"a": null})", {}).ok());
}

TEST(DocumentDiffTest, IgnoresServerAndOptionalMembers) {
  EXPECT_TRUE(
      CompareDocuments(R"({"_runtime": 1, "_wandb": {}})", R"({"_runtime": 2, "_x": 1})", {}).ok());
  EXPECT_EQ(CompareDocuments(R"({"_custom": 1})", R"({"_custom": 2})", {}).differing, 1u);
  const DocumentDiff shared = CompareDocuments(R"({"a": 1})", R"({"theirs": 1})",
                                               {.wrapped = false, .shared = true, .free = {}});
  EXPECT_EQ(shared.unexpected, 0u);
  EXPECT_EQ(shared.missing, 1u);
  const DocumentOptions free = {.wrapped = false, .shared = false, .free = {"epoch"}};
  EXPECT_TRUE(CompareDocuments(R"({"epoch": 1})", R"({"epoch": 2})", free).ok());
  EXPECT_TRUE(CompareDocuments(R"({})", R"({"epoch": 2})", free).ok());
}

TEST(DocumentDiffTest, NonObjectLacksEveryMember) {
  for (const char* got : {"", "null", "[1]", "{\"a\":"}) {
    EXPECT_EQ(CompareDocuments(R"({"a": 1})", got, {}).missing, 1u) << got;
  }
}

TEST(DocumentDiffTest, CountsAllAndNamesTheFirst) {
  std::string sent = "{";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&sent, i > 0 ? "," : "", "\"k", i, "\":1");
  const DocumentDiff diff = CompareDocuments(sent + "}", "{}", {});
  EXPECT_EQ(diff.missing, 100u);
  EXPECT_THAT(diff.problems, SizeIs(DocumentDiff::kKept));
  EXPECT_THAT(CompareDocuments(sent + "}", sent + "}", {}).problems, IsEmpty());
}

}  // namespace
}  // namespace ranklog::deliver::wandb
