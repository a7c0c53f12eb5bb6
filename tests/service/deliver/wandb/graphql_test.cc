#include "service/deliver/wandb/graphql.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  upsert.tags = {"a"};
  upsert.config = R"({"x":{"value":NaN}})";
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

TEST(ParseUpsertedTest, ReadsThePlace) {
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

TEST(ParseUpsertedTest, TakesNoLineCountForNone) {
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

TEST(ParseUpsertedTest, RefusesWhatIsNoAnswerOfAWandbServer) {
  for (const char* body :
       {"", "<html>", "[]", "{}", R"({"data":{"upsertBucket":null}})", R"({"errors":[]})",
        R"({"data":{"upsertBucket":{"bucket":{"id":5}}}})"}) {
    EXPECT_THAT(ParseUpserted(body), StatusIs(absl::StatusCode::kInternal)) << body;
  }
}

TEST(FeaturesTest, NamesThoseEnabled) {
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

TEST(HistoryQueryTest, AsksForARangeOfStepsAsTheOfficialClientDoes) {
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

TEST(ParseHistoryTest, TellsAnAbsentRunFromAnErrorFromAnotherServer) {
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

}  // namespace
}  // namespace ranklog::deliver::wandb
