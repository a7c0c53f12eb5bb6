// When WandbDelivery sends what, and what it wants stored before.

#include "service/deliver/wandb/wandb_delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/service/deliver/wandb/stored_run.h"
#include "tests/support/fake_transport.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wandb_account.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;
using ranklog::testing::FakeTransport;
using ranklog::testing::StoredRun;
using ranklog::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kUrl[] = "https://wandb.example.com";
constexpr char kMadeNewRun[] =
    R"({"data":{"upsertBucket":{"bucket":{"id":"s1","name":"r","displayName":"d","historyLineCount":0,
        "project":{"name":"pp","entity":{"name":"ee"}}}}}})";

constexpr char kNoRun[] = R"({"data":{"model":{"bucket":null}}})";
constexpr char kConfigErrors[] = R"({"errors":[{"message":"config too nested"}],"data":null})";

FakeTransport::Answer Usual(const HttpRequest& request) {
  if (absl::StrContains(request.body, "query RunResumeStatus("))
    return FakeTransport::Code(200, kNoRun);
  return FakeTransport::Code(
      200, absl::StrContains(request.body, "mutation UpsertBucket") ? kMadeNewRun : "{}");
}

class WandbDeliveryTest : public ::testing::Test {
 protected:
  WandbDeliveryTest() : credentials_(CredentialStore::Options{}) {
    EXPECT_OK(credentials_.Set(JobOf("p", "r"), testing::WandbAccount(kUrl),
                               {.secret = std::string(40, 'k')}));
    stored_delivery_.run = stored_.run().id;
    stored_delivery_.kind = kKind;
    Restart();
  }

  // Starts a new daemon from what is stored.
  void Restart() {
    breakers_ = std::make_unique<CircuitBreakers>(Backoff::Options{}, [this] { return now_; });
    delivery_ = std::make_unique<WandbDelivery>(
        stored_.run(), stored_delivery_,
        DeliveryParts{
            .transport = &transport_, .breakers = breakers_.get(), .credentials = &credentials_},
        WandbDelivery::Options{.files = false});
  }
  StepResult Step(bool draining = false) {
    StepResult result = delivery_->Step(stored_.reader(), now_, draining);
    if (result.changed) stored_delivery_ = result.delivery;
    for (const model::DeadLetter& letter : result.dead_letters) letters_.push_back(letter);
    EXPECT_LE(transport_.sent().size(), exchanges_ + 1) << "more than one exchange in a step";
    exchanges_ = transport_.sent().size();
    return result;
  }
  // Steps this delivery once a second, and checks that it sends nothing.
  void ExpectNoRequest(WandbDelivery& delivery, absl::Duration duration) {
    const size_t before = transport_.sent().size();
    for (const absl::Time end = now_ + duration; now_ < end;) {
      now_ += absl::Seconds(1);
      EXPECT_GT(delivery.Step(stored_.reader(), now_, true).wait, absl::ZeroDuration());
    }
    EXPECT_EQ(transport_.sent().size(), before);
  }
  // Steps at this time until the delivery has to wait.
  StepResult StepUntilIdle(bool draining = false) {
    for (int i = 0; i < 100; ++i) {
      if (StepResult result = Step(draining); result.wait > absl::ZeroDuration()) return result;
    }
    ADD_FAILURE() << "never idle";
    return {};
  }
  void StepUntilCut() {
    for (int i = 0; i < 10; ++i) {
      const StepResult result = Step();
      if (result.delivery.cursor.is_object() && result.delivery.cursor.value("cut_rows", 0) > 0) {
        return;
      }
    }
    ADD_FAILURE() << "no cut";
  }
  std::vector<json> Posts() const {
    std::vector<json> posts;
    for (const HttpRequest& request : transport_.sent()) {
      if (absl::EndsWith(request.url, "/file_stream")) posts.push_back(json::parse(request.body));
    }
    return posts;
  }
  size_t Upserts() const {
    size_t upserts = 0;
    for (const HttpRequest& request : transport_.sent())
      upserts += absl::StrContains(request.body, "mutation UpsertBucket");
    return upserts;
  }
  // Returns the config of that upsert.
  json UpsertedConfig(size_t upsert) const {
    for (const HttpRequest& request : transport_.sent()) {
      if (!absl::StrContains(request.body, "mutation UpsertBucket")) continue;
      if (upsert-- == 0) return json::parse(request.body)["variables"]["config"];
    }
    return "there was no such upsert";
  }
  static int64_t OffsetOf(const json& post) {
    return post["files"]["wandb-history.jsonl"]["offset"].get<int64_t>();
  }
  static size_t LinesOf(const json& post) {
    return post["files"]["wandb-history.jsonl"]["content"].size();
  }

  StoredRun stored_{kUrl};
  FakeTransport transport_{Usual};
  CredentialStore credentials_;
  model::Delivery stored_delivery_;
  std::vector<model::DeadLetter> letters_;
  std::unique_ptr<WandbDelivery> delivery_;
  absl::Time now_ = absl::FromUnixSeconds(1767322800);
  std::unique_ptr<CircuitBreakers> breakers_;
  size_t exchanges_ = 0;
};

TEST_F(WandbDeliveryTest, CursorIsStoredBeforeFirstPost) {
  stored_.Append(3);
  EXPECT_FALSE(Step().changed);  // the features
  EXPECT_FALSE(Step().changed);  // where the run stands: its position at the server
  EXPECT_FALSE(Step().changed);  // it has none
  EXPECT_TRUE(Step().changed);   // the digests of the config
  EXPECT_EQ(Upserts(), 0u);
  const StepResult upserted = Step();
  EXPECT_EQ(Upserts(), 1u);
  EXPECT_TRUE(upserted.changed);
  EXPECT_EQ(upserted.delivery.cursor["base_offset"], 0);
  EXPECT_EQ(upserted.wait, absl::ZeroDuration());
  const StepResult cut = Step();
  EXPECT_TRUE(cut.changed);
  EXPECT_EQ(cut.delivery.cursor["cut_rows"], 3);
  EXPECT_THAT(Posts(), ElementsAre());
  const StepResult posted = Step();
  EXPECT_EQ(posted.delivery.delivered_rows, 3u);
  ASSERT_EQ(Posts().size(), 1u);
  EXPECT_EQ(OffsetOf(Posts()[0]), 0);
  EXPECT_EQ(LinesOf(Posts()[0]), 3u);
  EXPECT_EQ(transport_.sent().back().url, "https://wandb.example.com/files/ee/pp/r/file_stream");
}

TEST_F(WandbDeliveryTest, SendsFirstRowsImmediatelyThenWaits) {
  stored_.Append(1);
  StepUntilIdle();
  ASSERT_EQ(Posts().size(), 1u);
  stored_.Append(1);
  now_ += absl::Seconds(14);
  StepUntilIdle();
  EXPECT_EQ(Posts().size(), 1u);
  now_ += absl::Seconds(2);
  StepUntilIdle();
  ASSERT_EQ(Posts().size(), 2u);
  EXPECT_EQ(OffsetOf(Posts()[1]), 1);
}

TEST_F(WandbDeliveryTest, DoesNotWaitWhileDraining) {
  stored_.Append(1);
  StepUntilIdle();
  stored_.Append(1);
  StepUntilIdle(/*draining=*/true);
  EXPECT_EQ(Posts().size(), 2u);
}

TEST_F(WandbDeliveryTest, SendsTheSummaryBesideTheRows) {
  stored_.Apply(model::Item::Kind::kSummary, {{"best", 0.25}});
  stored_.Append(3);
  StepUntilIdle();
  const json summary =
      json::parse(Posts()[0]["files"]["wandb-summary.json"]["content"][0].get<std::string>());
  EXPECT_EQ(summary["loss"], 2.5);
  EXPECT_EQ(summary["best"], 0.25);
  EXPECT_EQ(summary["_step"], 2);
  EXPECT_DOUBLE_EQ(summary["_runtime"].get<double>(), 0.002);
  EXPECT_EQ(summary["_wandb"]["runtime"], 0);
}

// Another store reads there which steps the run has.
TEST_F(WandbDeliveryTest, SummarysStepIsThatOfTheLastRow) {
  stored_.Apply(model::Item::Kind::kSummary, {{"_step", 100000}, {"_timestamp", 1}, {"best", 2}});
  stored_.Append(2);
  StepUntilIdle();
  const json summary =
      json::parse(Posts().back()["files"]["wandb-summary.json"]["content"][0].get<std::string>());
  EXPECT_EQ(summary["_step"], 1);
  EXPECT_GT(summary["_timestamp"], 1);
  EXPECT_EQ(summary["best"], 2);
}

TEST_F(WandbDeliveryTest, DefinitionAfterLastRowCounts) {
  stored_.Append(2);
  StepUntilIdle();
  model::MetricDefinition loss;
  loss.name = "loss";
  loss.summary = {"min", "max"};
  stored_.Define(loss);
  stored_.Close(model::RunState::kFinished, 0);
  EXPECT_TRUE(StepUntilIdle().delivery.complete);
  const json summary =
      json::parse(Posts().back()["files"]["wandb-summary.json"]["content"][0].get<std::string>());
  EXPECT_EQ(summary["loss"], json({{"min", 0.5}, {"max", 1.5}}));
}

TEST_F(WandbDeliveryTest, DefinitionAfterLastCutCounts) {
  stored_.Append(2);
  StepUntilCut();
  transport_.AnswerNext(absl::UnavailableError("cut off"));
  Step();
  model::MetricDefinition loss;
  loss.name = "loss";
  loss.summary = {"max"};
  stored_.Define(loss);
  stored_.Close(model::RunState::kFinished, 0);
  now_ += absl::Minutes(1);
  EXPECT_TRUE(StepUntilIdle().delivery.complete);
  const json summary =
      json::parse(Posts().back()["files"]["wandb-summary.json"]["content"][0].get<std::string>());
  EXPECT_EQ(summary["loss"], json({{"max", 1.5}}));
}

TEST_F(WandbDeliveryTest, SendsHeartbeatsWhileSilent) {
  stored_.Append(1);
  StepUntilIdle();
  for (int i = 0; i < 3; ++i) {
    now_ += absl::Seconds(30);
    StepUntilIdle();
  }
  ASSERT_EQ(Posts().size(), 4u);
  EXPECT_EQ(Posts()[3], json::object());

  stored_.Close(model::RunState::kFailed, 3);
  EXPECT_TRUE(StepUntilIdle().delivery.complete);
  EXPECT_EQ(Posts().back()["complete"], true);
  EXPECT_EQ(Posts().back()["exitcode"], 3);
  now_ += absl::Hours(1);
  EXPECT_EQ(Step().wait, absl::InfiniteDuration());
  EXPECT_EQ(Posts().size(), 5u);
}

TEST_F(WandbDeliveryTest, SendsEndWithLastRows) {
  stored_.Append(2);
  stored_.Close(model::RunState::kFinished, 0);
  EXPECT_TRUE(StepUntilIdle().delivery.complete);
  ASSERT_EQ(Posts().size(), 1u);
  EXPECT_EQ(LinesOf(Posts()[0]), 2u);
  EXPECT_EQ(Posts()[0]["exitcode"], 0);
}

TEST_F(WandbDeliveryTest, CrashedRunSendsNonzeroExitCode) {
  stored_.Close(model::RunState::kCrashed, 0);
  EXPECT_TRUE(StepUntilIdle().delivery.complete);
  EXPECT_EQ(Posts().back()["exitcode"], 1);
}

TEST_F(WandbDeliveryTest, PreemptionIsSentWithTheEnd) {
  stored_.Append(1);
  StepUntilIdle();
  EXPECT_FALSE(Posts().back().contains("preempting"));
  stored_.Apply(model::Item::Kind::kPreempting, model::Json::object());
  stored_.Close(model::RunState::kFailed, 143);
  EXPECT_TRUE(StepUntilIdle().delivery.complete);
  EXPECT_EQ(Posts().back()["preempting"], true);
  EXPECT_EQ(Posts().back()["exitcode"], 143);
}

TEST_F(WandbDeliveryTest, ContinuesAReopenedRun) {
  stored_delivery_.complete = true;  // from an earlier attempt; the run is running again
  Restart();
  stored_.Append(1);
  EXPECT_FALSE(StepUntilIdle().delivery.complete);
  EXPECT_EQ(stored_delivery_.delivered_rows, 1u);
}

TEST_F(WandbDeliveryTest, ChangedConfigWaitsUnlessRunEnds) {
  StepUntilIdle();
  EXPECT_EQ(Upserts(), 1u);
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}});
  StepUntilIdle();
  EXPECT_EQ(Upserts(), 1u);
  now_ += absl::Seconds(6);
  StepUntilIdle();
  EXPECT_EQ(Upserts(), 2u);
  const json variables = json::parse(transport_.sent()[4].body)["variables"];
  EXPECT_EQ(variables["id"], "s1");
  EXPECT_EQ(variables["entity"], "ee");
  EXPECT_THAT(variables["config"].get<std::string>(), HasSubstr(R"("lr":{"value":0.1})"));

  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.2}});
  stored_.Close(model::RunState::kFinished, 0);
  StepUntilIdle();
  EXPECT_EQ(Upserts(), 3u);
  EXPECT_EQ(Posts().back()["complete"], true);
}

TEST_F(WandbDeliveryTest, FailedConfigUpdateIsRetried) {
  StepUntilIdle();
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}});
  now_ += absl::Seconds(6);
  transport_.AnswerNext(FakeTransport::Code(200, kNoRun));
  transport_.AnswerNext(FakeTransport::Code(503));
  EXPECT_THAT(StepUntilIdle().delivery.last_error, HasSubstr("HTTP 503"));
  now_ += absl::Seconds(6);
  EXPECT_EQ(StepUntilIdle().delivery.last_error, "");
  EXPECT_EQ(Upserts(), 3u);
}

// GraphQL servers report errors with code 200. Such an answer to a config update once stopped the
// run's rows for ever.
TEST_F(WandbDeliveryTest, ConfigErrorsDoNotBlockRows) {
  StepUntilIdle();
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}});
  stored_.Append(3);
  now_ += absl::Seconds(6);
  transport_.AnswerNext(FakeTransport::Code(200, kNoRun));
  transport_.AnswerNext(FakeTransport::Code(200, kConfigErrors));
  const StepResult result = StepUntilIdle();
  EXPECT_EQ(result.delivery.last_error, "");
  EXPECT_EQ(stored_delivery_.delivered_rows, 3u);
  now_ += absl::Seconds(6);
  EXPECT_EQ(StepUntilIdle().delivery.last_error, "");
  ASSERT_EQ(letters_.size(), 1u);
  EXPECT_THAT(letters_[0].answer, AllOf(StartsWith("config: "), HasSubstr("config too nested")));
  EXPECT_THAT(letters_[0].content, HasSubstr("\"lr\""));
  // The server's config stays as it is.
  ASSERT_EQ(Upserts(), 3u);
  EXPECT_TRUE(UpsertedConfig(2).is_null());

  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.2}});
  now_ += absl::Seconds(6);
  StepUntilIdle();
  ASSERT_EQ(Upserts(), 4u);
  EXPECT_THAT(UpsertedConfig(3).get<std::string>(), HasSubstr(R"("lr":{"value":0.2})"));
  EXPECT_EQ(letters_.size(), 1u);
}

TEST_F(WandbDeliveryTest, RefusedRunDoesNotBlameConfig) {
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}});
  for (int i = 0; i < 3; ++i) Step();  // the features, and the run's position
  for (int i = 0; i < 2; ++i) transport_.AnswerNext(FakeTransport::Code(200, kConfigErrors));
  const StepResult refused = StepUntilIdle();
  EXPECT_EQ(refused.wait, absl::Seconds(60));
  EXPECT_THAT(refused.delivery.last_error, HasSubstr("config too nested"));
  now_ += refused.wait;
  EXPECT_EQ(StepUntilIdle().delivery.last_error, "");
  ASSERT_EQ(Upserts(), 3u);
  EXPECT_THAT(UpsertedConfig(2).get<std::string>(), HasSubstr(R"("lr":{"value":0.1})"));
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(WandbDeliveryTest, NewDaemonResendsIdenticalLines) {
  model::MetricDefinition loss;
  stored_.Append(1, "", /*shape=*/2);
  stored_.Append(2);
  StepUntilCut();
  transport_.AnswerNext(absl::UnavailableError("cut off"));
  EXPECT_THAT(Step().delivery.last_error, HasSubstr("cut off"));

  // A definition after the cut must not change the cut lines.
  loss.name = "loss";
  loss.step_metric = "x";
  stored_.Define(loss);
  stored_.Append(1);
  Restart();
  StepUntilIdle(/*draining=*/true);
  ASSERT_EQ(Posts().size(), 3u);
  EXPECT_EQ(Posts()[1]["files"]["wandb-history.jsonl"], Posts()[0]["files"]["wandb-history.jsonl"]);
  EXPECT_EQ(OffsetOf(Posts()[2]), 3);
  EXPECT_THAT(Posts()[2]["files"]["wandb-history.jsonl"]["content"][0].get<std::string>(),
              HasSubstr("\"x\":0,"));
}

TEST_F(WandbDeliveryTest, NewDaemonSummaryCoversAllRows) {
  model::MetricDefinition loss;
  loss.name = "loss";
  loss.summary = {"mean"};
  stored_.Define(loss);
  stored_.Append(4);
  StepUntilIdle();
  Restart();
  stored_.Append(1);
  StepUntilIdle();
  const json summary =
      json::parse(Posts().back()["files"]["wandb-summary.json"]["content"][0].get<std::string>());
  EXPECT_DOUBLE_EQ(summary["loss"]["mean"].get<double>(), 2.5);
  EXPECT_EQ(OffsetOf(Posts().back()), 4);
}

TEST_F(WandbDeliveryTest, SummaryReportsLostRows) {
  const auto lost = [this] {
    return json::parse(
               Posts().back()["files"]["wandb-summary.json"]["content"][0].get<std::string>())
        .value("ranklog/rows_lost", -1);
  };
  stored_.Append(1);
  StepUntilIdle(/*draining=*/true);
  EXPECT_EQ(lost(), -1) << "none: said by silence";
  const int64_t stream = stored_.reader().Streams(stored_.run().id)->front().id;
  stored_.Write([&](storage::Store& store) {
    EXPECT_OK(store.SetLosses(stream, {.ring_full = 4, .step_behind = 1}));
  });
  StepUntilIdle(/*draining=*/true);
  EXPECT_EQ(lost(), 5) << "without a new row";
  stored_.Write([&](storage::Store& store) {
    EXPECT_OK(store.SetAggregated(stream, {.through = 0, .late = 2}));
  });
  stored_.Close(model::RunState::kFinished, 0);
  StepUntilIdle();
  EXPECT_EQ(lost(), 7) << "the late ones, with the run's end";
}

TEST_F(WandbDeliveryTest, WaitingRunGoesToCorrectedAddress) {
  CredentialStore keys(CredentialStore::Options{});
  WandbDelivery delivery(
      stored_.run(), stored_delivery_,
      DeliveryParts{.transport = &transport_, .breakers = breakers_.get(), .credentials = &keys},
      {});
  StepResult result = delivery.Step(stored_.reader(), now_, true);
  EXPECT_TRUE(transport_.sent().empty()) << "no key";
  stored_.AttachAt("https://other.example.com");
  ASSERT_OK(keys.Set(JobOf("p", "r"), testing::WandbAccount("https://other.example.com"),
                     {.secret = std::string(40, 'k')}));
  for (int i = 0; i < 5 && transport_.sent().empty(); ++i) {
    now_ += std::max(result.wait, absl::Seconds(1));
    result = delivery.Step(stored_.reader(), now_, true);
  }
  ASSERT_FALSE(transport_.sent().empty());
  EXPECT_EQ(transport_.sent()[0].url, "https://other.example.com/graphql");
}

TEST_F(WandbDeliveryTest, SendsNoRequestWithoutKey) {
  CredentialStore none(CredentialStore::Options{});
  WandbDelivery delivery(
      stored_.run(), stored_delivery_,
      DeliveryParts{.transport = &transport_, .breakers = breakers_.get(), .credentials = &none},
      {});
  const StepResult result = delivery.Step(stored_.reader(), now_, true);
  EXPECT_THAT(result.delivery.last_error, HasSubstr("no API key for wandb.example.com"));
  EXPECT_LT(result.wait, absl::Seconds(5)) << "a restarted daemon gets it from the next rank";
  EXPECT_TRUE(transport_.sent().empty());
  ASSERT_OK(
      none.Set(JobOf("p", "r"), testing::WandbAccount(kUrl), {.secret = std::string(40, 'k')}));
  now_ += result.wait;
  EXPECT_EQ(delivery.Step(stored_.reader(), now_, true).wait, absl::ZeroDuration());
}

// A daemon has just started. Live ranks send their keys again soon.
TEST_F(WandbDeliveryTest, LiveRunAwaitsKeyWithoutError) {
  CredentialStore keys(CredentialStore::Options{});
  const CredentialStore none(CredentialStore::Options{});
  const absl::Time ranks_return_by = now_ + absl::Seconds(10);
  const auto error = [&](absl::Time now, const CredentialStore& with) {
    WandbDelivery delivery(stored_.run(), stored_delivery_,
                           DeliveryParts{.transport = &transport_,
                                         .breakers = breakers_.get(),
                                         .credentials = &with,
                                         .ranks_return_by = ranks_return_by},
                           {});
    const StepResult result = delivery.Step(stored_.reader(), now, false);
    EXPECT_GT(result.wait, absl::ZeroDuration());
    EXPECT_LE(result.wait, absl::Seconds(2));
    return result.delivery.last_error;
  };
  EXPECT_EQ(error(now_, keys), "");
  EXPECT_THAT(error(now_ + absl::Seconds(10), keys), HasSubstr("no API key"));
  keys.RecordAttach(JobOf("p", "another"));
  EXPECT_EQ(error(now_, keys), "");
  keys.RecordAttach(JobOf("p", "r"));
  EXPECT_THAT(error(now_, keys), HasSubstr("no API key")) << "its rank has none";
  stored_.Close(model::RunState::kCrashed, 1);
  EXPECT_THAT(error(now_, none), HasSubstr("no API key")) << "nobody will bring one";
  EXPECT_THAT(transport_.sent(), IsEmpty());
}

TEST_F(WandbDeliveryTest, NewKeyClearsErrorImmediately) {
  for (const bool restarted : {false, true}) {
    CredentialStore keys(CredentialStore::Options{});
    auto delivery = std::make_unique<WandbDelivery>(
        stored_.run(), stored_delivery_,
        DeliveryParts{.transport = &transport_, .breakers = breakers_.get(), .credentials = &keys},
        WandbDelivery::Options{.files = false});
    model::Delivery stored = delivery->Step(stored_.reader(), now_, false).delivery;
    EXPECT_THAT(stored.last_error, HasSubstr("no API key")) << restarted;
    if (restarted) {
      delivery = std::make_unique<WandbDelivery>(
          stored_.run(), stored,
          DeliveryParts{
              .transport = &transport_, .breakers = breakers_.get(), .credentials = &keys},
          WandbDelivery::Options{.files = false});
    }
    ASSERT_OK(
        keys.Set(JobOf("p", "r"), testing::WandbAccount(kUrl), {.secret = std::string(40, 'k')}));
    now_ += absl::Seconds(2);
    const StepResult result = delivery->Step(stored_.reader(), now_, false);
    EXPECT_EQ(result.delivery.last_error, "") << restarted;
    EXPECT_TRUE(result.changed);
    EXPECT_EQ(result.wait, absl::ZeroDuration());
    EXPECT_THAT(transport_.sent(), IsEmpty());
  }
}

TEST_F(WandbDeliveryTest, RefusedKeyPausesRequests) {
  transport_.AnswerNext(FakeTransport::Code(401, "bad key"));
  const StepResult result = StepUntilIdle();
  EXPECT_THAT(result.delivery.last_error,
              HasSubstr("HTTP 401: bad key; to continue, run `ranklog login"));
  ExpectNoRequest(*delivery_, absl::Seconds(59));
}

TEST_F(WandbDeliveryTest, AnswerOfAnotherProgramAwaitsPerson) {
  for (int i = 0; i < 3; ++i) transport_.AnswerNext(FakeTransport::Code(200, R"({"data":{}})"));
  EXPECT_THAT(StepUntilIdle().delivery.last_error, HasSubstr(kToContinue));
}

// The key was revoked while the run was delivered.
TEST_F(WandbDeliveryTest, RefusedKeyKeepsRowsForLater) {
  stored_.Append(3);
  StepUntilCut();
  transport_.AnswerNext(FakeTransport::Code(401, "bad key"));
  const StepResult refused = StepUntilIdle();
  EXPECT_THAT(refused.delivery.last_error, HasSubstr("HTTP 401: bad key"));
  EXPECT_EQ(refused.delivery.delivered_rows, 0u);
  now_ += absl::Minutes(2);
  const StepResult accepted = StepUntilIdle();
  EXPECT_EQ(accepted.delivery.last_error, "");
  EXPECT_EQ(accepted.delivery.delivered_rows, 3u);
  EXPECT_EQ(OffsetOf(Posts().back()), 0);
  EXPECT_EQ(LinesOf(Posts().back()), 3u);
  EXPECT_EQ(accepted.delivery.refused_rows, 0u);
  EXPECT_TRUE(letters_.empty());
}

// A user who has just run `ranklog login`, or restarted the job with another key, looks at once.
TEST_F(WandbDeliveryTest, NewKeyIsTriedImmediately) {
  TempDir dir;
  CredentialStore::Options options;
  options.files = {dir.File("credentials")};
  CredentialStore credentials(options);
  ASSERT_OK(credentials.Set(JobOf("p", "r"), testing::WandbAccount(kUrl),
                            {.secret = std::string(40, '1')}));
  WandbDelivery delivery(
      stored_.run(), stored_delivery_,
      DeliveryParts{
          .transport = &transport_, .breakers = breakers_.get(), .credentials = &credentials},
      {});
  const auto key_of_next_step = [&] {
    transport_.AnswerNext(FakeTransport::Code(401));
    const size_t before = transport_.sent().size();
    const StepResult result = delivery.Step(stored_.reader(), now_, true);
    EXPECT_THAT(result.delivery.last_error, HasSubstr("HTTP 401"));
    EXPECT_LE(result.wait, absl::Seconds(2));
    now_ += result.wait;
    return transport_.sent().size() == before ? "" : transport_.sent().back().basic_password;
  };
  EXPECT_EQ(key_of_next_step(), std::string(40, '1'));
  std::ofstream(dir.File("credentials"))
      << "machine wandb.example.com login user password " << std::string(40, '2');
  ASSERT_EQ(chmod(dir.File("credentials").c_str(), 0600), 0);
  EXPECT_EQ(key_of_next_step(), std::string(40, '2'));
  ASSERT_OK(credentials.Set(JobOf("p", "r"), testing::WandbAccount(kUrl),
                            {.secret = std::string(40, '3')}));
  EXPECT_EQ(key_of_next_step(), std::string(40, '3'));
  ExpectNoRequest(delivery, absl::Seconds(50));
  ASSERT_OK(credentials.Set(JobOf("p", "r"), testing::WandbAccount(kUrl),
                            {.secret = std::string(40, '4')}));
  const size_t before = transport_.sent().size();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(delivery.Step(stored_.reader(), now_, true).wait, absl::ZeroDuration()) << i;
  }
  EXPECT_EQ(transport_.sent().size(), before + 2) << "the key is taken, and all goes on";
}

// Only this run waits; other runs at the same server have keys.
TEST_F(WandbDeliveryTest, MissingKeyDelaysNoOtherRun) {
  CredentialStore none(CredentialStore::Options{});
  WandbDelivery keyless(
      stored_.run(), stored_delivery_,
      DeliveryParts{.transport = &transport_, .breakers = breakers_.get(), .credentials = &none},
      {});
  keyless.Step(stored_.reader(), now_, true);
  EXPECT_EQ(Step().wait, absl::ZeroDuration());
  EXPECT_EQ(transport_.sent().size(), 1u);
}

// A login page, a captive portal, or a proxy without an answer: the rows were not delivered.
TEST_F(WandbDeliveryTest, ForeignAnswerDeliversNothing) {
  struct {
    std::string body, said;
  } const answers[] = {
      {"<html><title>Log in</title></html>", "HTTP 200 with a web page, \"Log in\""},
      {"", "HTTP 200 with an empty body"},
      {"OK", "HTTP 200 with a body that is not a JSON object: OK"},
      {"[{}]", "not a JSON object: [{}]"},
      {"{\"exitcode\":nu", "not a JSON object: {\"exitcode\":nu"},
      {std::string(1000, '['), "not a JSON object: [[[["},
      {absl::StrCat("<p>", std::string(40, 'k')), "HTTP 200 with a web page"},
  };
  stored_.Append(3);
  for (const auto& [body, said] : answers) {
    stored_delivery_.cursor = model::Json();
    Restart();
    StepUntilCut();
    transport_.AnswerNext(FakeTransport::Code(200, body));
    const StepResult result = StepUntilIdle();
    EXPECT_EQ(result.delivery.delivered_rows, 0u) << body;
    EXPECT_THAT(result.delivery.last_error,
                AllOf(StartsWith("post to the file stream: "), HasSubstr(said)));
    EXPECT_GE(result.wait, absl::Seconds(2)) << "the way to the server is not well";
  }
  now_ += absl::Minutes(2);
  const StepResult result = StepUntilIdle();
  EXPECT_EQ(result.delivery.delivered_rows, 3u) << "an empty object is an answer";
  EXPECT_EQ(result.delivery.last_error, "");
  EXPECT_EQ(Posts().size(), std::size(answers) + 1);
  EXPECT_EQ(Posts().front(), Posts().back());
}

TEST_F(WandbDeliveryTest, RepeatsFeatureQueryAfterWebPage) {
  transport_.AnswerNext(FakeTransport::Code(200, "<html><title>Log in</title></html>"));
  const StepResult result = StepUntilIdle();
  EXPECT_THAT(result.delivery.last_error,
              HasSubstr("ask for the server's features: HTTP 200 with a web page, \"Log in\""));
  EXPECT_LT(result.wait, absl::Seconds(10));
  now_ += result.wait;
  Step();
  EXPECT_EQ(transport_.sent().back().body, transport_.sent().front().body);
}

TEST_F(WandbDeliveryTest, RefusedKeyFallsBackToNext) {
  CredentialStore::Options options;
  options.environment["wandb"].secret = std::string(40, 'e');
  CredentialStore credentials(options);
  ASSERT_OK(credentials.Set(JobOf("p", "r"), testing::WandbAccount(kUrl),
                            {.secret = std::string(40, 'k')}));
  WandbDelivery delivery(
      stored_.run(), stored_delivery_,
      DeliveryParts{
          .transport = &transport_, .breakers = breakers_.get(), .credentials = &credentials},
      {});
  transport_.AnswerNext(FakeTransport::Code(401));
  StepResult result = delivery.Step(stored_.reader(), now_, true);
  EXPECT_EQ(result.wait, absl::ZeroDuration());
  EXPECT_EQ(result.delivery.last_error, "");
  transport_.AnswerNext(FakeTransport::Code(401));
  result = delivery.Step(stored_.reader(), now_, true);
  EXPECT_EQ(transport_.sent().back().basic_password, std::string(40, 'e'));
  EXPECT_THAT(result.delivery.last_error, HasSubstr("HTTP 401"));
  ExpectNoRequest(delivery, absl::Seconds(59));  // there is no third key
  now_ += absl::Seconds(1);
  delivery.Step(stored_.reader(), now_, true);
  EXPECT_EQ(transport_.sent().back().basic_password, std::string(40, 'k')) << "right by now?";
}

TEST_F(WandbDeliveryTest, MasksTheKeyInServerErrors) {
  const std::string key(40, 'k');
  transport_.AnswerNext(FakeTransport::Code(
      401, absl::StrCat("bad: ", key, " Basic ", absl::Base64Escape("api:" + key))));
  EXPECT_THAT(StepUntilIdle().delivery.last_error, HasSubstr("bad: [key] Basic [key]"));
}

TEST_F(WandbDeliveryTest, HonoursRetryAfterHeader) {
  stored_.Append(1);
  StepUntilCut();
  HttpResponse busy = FakeTransport::Code(429);
  busy.retry_after = absl::Seconds(42);
  transport_.AnswerNext(busy);
  EXPECT_EQ(StepUntilIdle().wait, absl::Seconds(42));
  now_ += absl::Seconds(41);
  Step();
  EXPECT_EQ(Posts().size(), 1u);
  now_ += absl::Seconds(1);
  StepUntilIdle();
  EXPECT_EQ(Posts().size(), 2u);
  EXPECT_EQ(Posts()[0], Posts()[1]);
}

TEST_F(WandbDeliveryTest, AuthenticatesAsTheApiUser) {
  StepUntilIdle();
  EXPECT_EQ(transport_.sent()[0].basic_user, "api");
  EXPECT_EQ(transport_.sent()[0].basic_password, std::string(40, 'k'));
}

TEST_F(WandbDeliveryTest, AFullPostDoesNotWait) {
  WandbDelivery::Options options;
  options.files = false;
  options.max_post_bytes = 500;
  WandbDelivery delivery(
      stored_.run(), stored_delivery_,
      DeliveryParts{
          .transport = &transport_, .breakers = breakers_.get(), .credentials = &credentials_},
      options);
  stored_.Append(100);
  for (int i = 0; i < 200; ++i) delivery.Step(stored_.reader(), now_, false);
  EXPECT_GT(Posts().size(), 10u);
  int64_t next = 0;
  for (const json& post : Posts()) {
    EXPECT_EQ(OffsetOf(post), next);
    next += static_cast<int64_t>(LinesOf(post));
  }
  EXPECT_GT(next, 90);  // the rest is not a full post
}

}  // namespace
}  // namespace ranklog::deliver::wandb
