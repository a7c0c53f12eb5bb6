#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/deliver/wandb/api/alert.h"
#include "service/deliver/wandb/api/run_read_back.h"
#include "service/deliver/wandb/api/run_standing.h"
#include "service/deliver/wandb/api/run_upsert.h"
#include "service/deliver/wandb/api/server_info.h"
#include "tests/support/status_matchers.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;
using ranklog::testing::IsOkAndHolds;
using ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(UpsertBodyTest, SendsUnsetVariablesAsNull) {
  Upsert upsert;
  upsert.run_id = "r";
  upsert.project = "p";
  upsert.config = R"({"x":{"value":NaN}})";
  upsert.tags = {"a"};
  const json body = json::parse(UpsertBody(upsert));
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

TEST(UpsertBodyTest, SendsTexts) {
  Upsert upsert;
  upsert.display_name = "d";
  upsert.group = "g";
  upsert.job_type = "train";
  upsert.notes = "n";
  upsert.host = "h";
  upsert.program = "p";
  upsert.commit = "c";
  upsert.repo = "r";
  const json variables = json::parse(UpsertBody(upsert))["variables"];
  EXPECT_EQ(variables["displayName"], "d");
  EXPECT_EQ(variables["groupName"], "g");
  EXPECT_EQ(variables["jobType"], "train");
  EXPECT_EQ(variables["notes"], "n");
  EXPECT_EQ(variables["host"], "h");
  EXPECT_EQ(variables["program"], "p");
  EXPECT_EQ(variables["commit"], "c");
  EXPECT_EQ(variables["repo"], "r");
}

TEST(UpsertTest, VisitsItsTexts) {
  Upsert upsert;
  upsert.notes = "n";
  upsert.tags = {"a", "b"};
  std::map<std::string, std::string> texts;
  upsert.VisitTexts([&](const char* name, std::string* text) {
    texts[name] = *text;
    text->clear();
  });
  EXPECT_EQ(texts["notes"], "n");
  EXPECT_EQ(texts["tags"], "a\nb");
  EXPECT_EQ(texts.size(), 9u);
  EXPECT_EQ(upsert.notes, "");
  EXPECT_THAT(upsert.tags, IsEmpty());
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

// The answer to the official client's query when it resumes a run.
std::string Standing(const json& bucket) {
  return json({{"data",
                {{"model",
                  {{"name", "p"}, {"entity", {{"id", "x"}, {"name", "e"}}}, {"bucket", bucket}}}}}})
      .dump();
}

json Bucket() {
  return {{"id", "s"},
          {"name", "r"},
          {"displayName", "d"},
          {"historyLineCount", 7},
          {"eventsLineCount", 2},
          {"logLineCount", 0},
          {"historyTail", R"(["{\"_step\":9}","{\"x\":NaN,\"_timestamp\":3.25,\"_step\":4}"])"},
          {"eventsTail", R"(["{\"_runtime\":17.5}"])"},
          {"summaryMetrics", R"({"_timestamp":2.5,"_step":3,"_wandb":{"runtime":16}})"},
          {"config", R"({"lr":{"value":0.1}})"},
          {"wandbConfig", R"({"t":{"3":[1]}})"},
          {"tags", {"a"}},
          {"notes", ""}};
}

TEST(StandingTest, ReadsTheRun) {
  const absl::StatusOr<ServerRunState> standing = ParseStanding(Standing(Bucket()));
  ASSERT_OK(standing);
  EXPECT_EQ(standing->storage_id, "s");
  EXPECT_EQ(standing->entity, "e");
  EXPECT_EQ(standing->project, "p");
  EXPECT_EQ(standing->lines, 7);
  EXPECT_EQ(standing->events, 2);
  EXPECT_EQ(standing->runtime_us, 17'500'000) << "the largest of all";
  EXPECT_TRUE(standing->started);
  EXPECT_TRUE(standing->has_tags);
  EXPECT_FALSE(standing->has_notes);
  EXPECT_EQ(standing->config["lr"]["value"], 0.1);
}

TEST(StandingTest, TakesLaterTimeAndStep) {
  json run = Bucket();
  EXPECT_EQ(ParseStanding(Standing(run))->newest_us, 3'250'000);
  EXPECT_EQ(ParseStanding(Standing(run))->last_step, 4);
  run["historyTail"] = "[]";
  EXPECT_EQ(ParseStanding(Standing(run))->newest_us, 2'500'000);
  EXPECT_EQ(ParseStanding(Standing(run))->last_step, 3);
  for (const char* step : {"-3", "3.5", "1e300", "18446744073709551615", "\"3\""}) {
    run["summaryMetrics"] = absl::StrCat("{\"_step\":", step, "}");
    EXPECT_EQ(ParseStanding(Standing(run))->last_step, -1) << step;
  }
  run["summaryMetrics"] = "{";
  EXPECT_FALSE(ParseStanding(Standing(run))->newest_us.has_value());
}

TEST(StandingTest, WithoutTheRunOrItsLinesIsNoState) {
  EXPECT_THAT(ParseStanding(Standing(nullptr)), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ParseStanding(R"({"data":{"model":null}})"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ParseStanding("{}"), StatusIs(absl::StatusCode::kInternal));
  for (const char* const count : {"historyLineCount", "eventsLineCount"}) {
    json run = Bucket();
    run[count] = -1;
    EXPECT_THAT(ParseStanding(Standing(run)), StatusIs(absl::StatusCode::kInternal)) << count;
    run[count] = nullptr;
    EXPECT_THAT(ParseStanding(Standing(run)),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("overwrite")))
        << count;
    run["wandbConfig"] = "{}";  // made by a sweep, not begun
    EXPECT_OK(ParseStanding(Standing(run))) << count;
  }
}

TEST(AlertTest, HasTheVariablesOfTheOfficialClient) {
  const json body = json::parse(AlertBody({.entity = "e",
                                           .project = "p",
                                           .run_id = "r",
                                           .title = "t",
                                           .text = "x",
                                           .level = "WARN",
                                           .wait_ms = 60000}));
  EXPECT_EQ(body["operationName"], "NotifyScriptableRunAlert");
  EXPECT_EQ(body["variables"], json({{"entityName", "e"},
                                     {"projectName", "p"},
                                     {"runName", "r"},
                                     {"title", "t"},
                                     {"text", "x"},
                                     {"severity", "WARN"},
                                     {"waitDuration", 60000}}));
}

TEST(AlertTest, OnlySuccessCounts) {
  EXPECT_OK(ParseAlert(R"({"data":{"notifyScriptableRunAlert":{"success":true}}})"));
  for (const char* const other :
       {"{}", R"({"data":{"notifyScriptableRunAlert":{"success":false}}})",
        R"({"data":{"notifyScriptableRunAlert":null}})"}) {
    EXPECT_THAT(ParseAlert(other), StatusIs(absl::StatusCode::kFailedPrecondition)) << other;
  }
  EXPECT_THAT(ParseAlert(R"({"errors":[{"message":"no such run"}],"data":null})"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no such run")));
}

TEST(StateTest, IsTheServersNameForIt) {
  EXPECT_THAT(ParseState(R"({"data":{"project":{"run":{"state":"crashed"}}}})"),
              IsOkAndHolds("crashed"));
  EXPECT_THAT(ParseState(R"({"data":{"project":{"run":null}}})"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ParseState(R"({"data":{"project":{"run":{}}}})"),
              StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
