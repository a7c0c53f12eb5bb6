#include "service/deliver/wandb/graphql.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;
using ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(UpsertBodyTest, SendsUnsetVariablesAsNull) {
  Upsert upsert;
  upsert.run_id = "r";
  upsert.project = "p";
  upsert.config = R"({"x":{"value":NaN}})";
  model::RunSettings settings;
  settings.tags = {"a"};
  const json body = json::parse(UpsertBody(upsert, settings));
  EXPECT_EQ(body["operationName"], "UpsertBucket");
  const json& variables = body["variables"];
  EXPECT_EQ(variables["name"], "r");
  EXPECT_EQ(variables["tags"], json({"a"}));
  EXPECT_EQ(variables["config"], upsert.config);
  for (const char* name :
       {"id", "entity", "groupName", "displayName", "notes", "host", "program", "jobType", "state",
        "summaryMetrics", "sweep", "commit", "repo", "debug", "description"}) {
    ASSERT_TRUE(variables.contains(name)) << name;
    EXPECT_TRUE(variables[name].is_null()) << name;
  }
}

TEST(UpsertBodyTest, SendsSettings) {
  model::RunSettings settings;
  settings.group = "g";
  settings.job_type = "train";
  settings.notes = "n";
  settings.host = "h";
  settings.program = "p";
  const json variables = json::parse(UpsertBody({}, settings))["variables"];
  EXPECT_EQ(variables["groupName"], "g");
  EXPECT_EQ(variables["jobType"], "train");
  EXPECT_EQ(variables["notes"], "n");
  EXPECT_EQ(variables["host"], "h");
  EXPECT_EQ(variables["program"], "p");
}

TEST(ParseUpsertedTest, ReadsRunIdAndLineCount) {
  ASSERT_OK_AND_ASSIGN(
      const Upserted upserted,
      ParseUpserted(
          R"({"data":{"upsertBucket":{"bucket":{"id":"s","name":"r","displayName":"d","historyLineCount":3,
                       "project":{"name":"p","entity":{"name":"e"}}},"inserted":true}}})"));
  EXPECT_EQ(upserted.storage_id, "s");
  EXPECT_EQ(upserted.run_id, "r");
  EXPECT_EQ(upserted.project, "p");
  EXPECT_EQ(upserted.entity, "e");
  EXPECT_EQ(upserted.history_lines, 3);
}

TEST(ParseUpsertedTest, MissingLineCountMeansZero) {
  ASSERT_OK_AND_ASSIGN(
      const Upserted upserted,
      ParseUpserted(
          R"({"data":{"upsertBucket":{"bucket":{"id":"s","name":"r","historyLineCount":null,"project":{"name":"p","entity":{"name":"e"}}}}}})"));
  EXPECT_EQ(upserted.history_lines, 0);
}

TEST(ParseUpsertedTest, PassesOnTheServersErrors) {
  EXPECT_THAT(ParseUpserted(R"({"errors":[{"message":"no such entity"}],"data":null})"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no such entity")));
}

TEST(ParseUpsertedTest, RejectsMalformedAnswers) {
  for (const char* body :
       {"", "<html>", "[]", "{}", R"({"data":{"upsertBucket":null}})", R"({"errors":[]})",
        R"({"data":{"upsertBucket":{"bucket":{"id":5}}}})"}) {
    EXPECT_THAT(ParseUpserted(body), StatusIs(absl::StatusCode::kInternal)) << body;
  }
}

TEST(ParseUpsertedTest, RejectsInvalidNamesAndLineCounts) {
  const auto parse = [](const std::string& project, const std::string& lines) {
    return ParseUpserted(absl::StrCat(
        R"({"data":{"upsertBucket":{"bucket":{"id":"s","name":"r","historyLineCount":)", lines,
        R"(,"project":{"name":")", project, R"(","entity":{"name":"e"}}}}}})"));
  };
  EXPECT_OK(parse(std::string(1024, 'p'), "9007199254740992"));
  EXPECT_THAT(parse(std::string(1025, 'p'), "0"), StatusIs(absl::StatusCode::kInternal));
  for (const char* lines : {"-1", "9007199254740993", "18446744073709551615", "1e300", "\"7\""}) {
    EXPECT_THAT(parse("p", lines), StatusIs(absl::StatusCode::kInternal)) << lines;
  }
}

// Up to 4 MiB of an answer are kept. Copying the parsed value once overflowed the stack.
TEST(GraphqlAnswerTest, DeepNestingIsNotAnAnswer) {
  constexpr size_t kKept = 4 << 20;
  for (const std::string level : {"[", "{\"errors\":", "[[],", "{\"data\":{\"a\":[0,"}) {
    std::string body = "{\"errors\":";
    while (body.size() + level.size() <= kKept) body += level;
    EXPECT_THAT(ParseUpserted(body), StatusIs(absl::StatusCode::kInternal)) << level;
    EXPECT_THAT(ParseFeatures(body), IsEmpty()) << level;
    EXPECT_THAT(ParseHistory(body), StatusIs(absl::StatusCode::kInternal)) << level;
    EXPECT_THAT(ParseDocuments(body), StatusIs(absl::StatusCode::kInternal)) << level;
  }
  // Closed again, so that only the depth is wrong.
  const std::string closed =
      absl::StrCat("{\"errors\":", std::string(2000000, '['), std::string(2000000, ']'), "}");
  EXPECT_THAT(ParseUpserted(closed), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(ParseHistory(closed), StatusIs(absl::StatusCode::kInternal));
}

TEST(GraphqlAnswerTest, ErrorsAreShortened) {
  std::string body = R"({"errors":[{"message":"first\nline"})";
  for (int i = 0; i < 10000; ++i) body += R"(,{"message":"another one of them"})";
  body += "]}";
  const absl::Status status = ParseUpserted(body).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("first line")));
  EXPECT_LE(status.message().size(), 500u);
}

TEST(FeaturesTest, ListsEnabledFeatures) {
  EXPECT_THAT(
      ParseFeatures(
          R"({"data":{"serverInfo":{"features":[{"name":"A","isEnabled":true},{"name":"B","isEnabled":false}]}}})"),
      ElementsAre("A"));
  for (const char* body : {"", "{}", R"({"data":{"serverInfo":null}})",
                           R"({"data":{"serverInfo":{"features":[1]}}})"}) {
    EXPECT_THAT(ParseFeatures(body), IsEmpty()) << body;
  }
  EXPECT_EQ(json::parse(FeaturesBody())["operationName"], "ServerFeaturesQuery");
}

TEST(HistoryQueryTest, RequestsStepRangeAndPageSize) {
  const json body = json::parse(HistoryBody({.entity = "e",
                                             .project = "p",
                                             .run_id = "r",
                                             .min_step = 3,
                                             .max_step = int64_t{1} << 40,
                                             .max_lines = 1000}));
  EXPECT_EQ(body["operationName"], "HistoryPage");
  EXPECT_EQ(body["variables"], json({{"entity", "e"},
                                     {"project", "p"},
                                     {"run", "r"},
                                     {"minStep", 3},
                                     {"maxStep", int64_t{1} << 40},
                                     {"pageSize", 1000}}));
}

TEST(ParseHistoryTest, ReadsLinesCountAndState) {
  ASSERT_OK_AND_ASSIGN(
      const HistoryPage page,
      ParseHistory(
          R"({"data":{"project":{"run":{"historyLineCount":7,"state":"finished","history":["{\"a\":1}","{}"]}}}})"));
  EXPECT_EQ(page.line_count, 7);
  EXPECT_EQ(page.state, "finished");
  EXPECT_THAT(page.lines, ElementsAre("{\"a\":1}", "{}"));
}

TEST(ParseHistoryTest, DistinguishesAbsentRunFromErrors) {
  EXPECT_THAT(ParseHistory(R"({"data":{"project":{"run":null}}})"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ParseHistory(R"({"data":{"project":null}})"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ParseHistory(R"({"errors":[{"message":"no rights"}]})"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no rights")));
  for (const char* body :
       {"", "<html>", "[]", "{}", R"({"data":{"project":{"run":{"history":null}}}})",
        R"({"data":{"project":{"run":{"historyLineCount":1,"history":[1]}}}})"}) {
    EXPECT_THAT(ParseHistory(body), StatusIs(absl::StatusCode::kInternal)) << body;
  }
}

TEST(StandingTest, TakesLaterTimeAndStep) {
  const auto answer = [](const json& run) {
    return json({{"data", {{"project", {{"run", run}}}}}}).dump();
  };
  json run = {{"id", "s"},
              {"name", "r"},
              {"state", "finished"},
              {"historyLineCount", 7},
              {"historyTail", R"(["{\"_step\":9}","{\"x\":NaN,\"_timestamp\":3.25,\"_step\":4}"])"},
              {"summaryMetrics", R"({"_timestamp":2.5,"_step":3})"},
              {"project", {{"name", "p"}, {"entity", {{"name", "e"}}}}}};
  absl::StatusOr<ServerRunState> standing = ParseStanding(answer(run));
  ASSERT_OK(standing);
  EXPECT_EQ(standing->storage_id, "s");
  EXPECT_EQ(standing->entity, "e");
  EXPECT_EQ(standing->lines, 7);
  EXPECT_EQ(standing->state, "finished");
  EXPECT_EQ(standing->newest_us, 3'250'000);
  EXPECT_EQ(standing->last_step, 4);
  run["historyTail"] = "[]";
  EXPECT_EQ(ParseStanding(answer(run))->newest_us, 2'500'000);
  EXPECT_EQ(ParseStanding(answer(run))->last_step, 3);
  for (const char* step : {"-3", "3.5", "1e300", "18446744073709551615", "\"3\""}) {
    run["summaryMetrics"] = absl::StrCat("{\"_step\":", step, "}");
    EXPECT_EQ(ParseStanding(answer(run))->last_step, -1) << step;
  }
  run["summaryMetrics"] = "{";
  EXPECT_FALSE(ParseStanding(answer(run))->newest_us.has_value());
  EXPECT_THAT(ParseStanding(answer(nullptr)), StatusIs(absl::StatusCode::kNotFound));
  run["historyLineCount"] = -1;
  EXPECT_THAT(ParseStanding(answer(run)), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(ParseStanding("{}"), StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
