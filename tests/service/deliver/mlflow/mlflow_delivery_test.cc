// What is sent, and what follows each answer. tests/interop/mlflow_runs.py checks the same with the real
// server, which cannot be made to answer everything.

#include "service/deliver/mlflow/mlflow_delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/deliver/credentials.h"
#include "tests/service/deliver/wandb/stored_run.h"
#include "tests/support/fake_transport.h"

namespace ranklog::deliver::mlflow {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakeTransport;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr char kRefused[] = R"({"error_code":"INVALID_PARAMETER_VALUE","message":"no"})";
constexpr char kThere[] = R"({"error_code":"BAD_REQUEST","message":"UNIQUE constraint failed"})";

class MlflowDeliveryTest : public ::testing::Test {
 protected:
  MlflowDeliveryTest() {
    stored_delivery_.run = stored_.run().id;
    stored_delivery_.kind = "mlflow";
    Restart();
  }

  // A new daemon delivers the run.
  void Restart() {
    breakers_ = std::make_unique<CircuitBreakers>(Backoff::Options{}, [this] { return now_; });
    delivery_ = FindDestination("mlflow")->Deliver(
        stored_.run(), stored_delivery_,
        {.transport = &transport_, .breakers = breakers_.get(), .credentials = &credentials_});
  }
  // Steps until there is nothing more to do now.
  void Deliver(absl::Duration patience = absl::ZeroDuration()) {
    for (int steps = 0; steps < 1000; ++steps) {
      const StepResult result = delivery_->Step(stored_.reader(), now_, /*draining=*/true);
      stored_delivery_ = result.delivery;
      letters_.insert(letters_.end(), result.dead_letters.begin(), result.dead_letters.end());
      if (result.wait <= absl::ZeroDuration()) continue;
      if (result.delivery.complete || result.wait > patience) return;
      patience -= result.wait;
      now_ += result.wait;
    }
    ADD_FAILURE() << "it never waits";
  }

  // A server with one experiment, which keeps points, params and tags, and refuses the keys in
  // `refused_`.
  FakeTransport::Answer Serve(const HttpRequest& request) {
    const json body = json::parse(request.body, nullptr, false);
    const auto is = [&](const char* path) {
      return absl::StrContains(request.url, absl::StrCat("/api/2.0/mlflow/", path));
    };
    const auto answer = [](const json& content) {
      return FakeTransport::Code(200, content.dump());
    };
    if (is("experiments/")) {
      return answer({{"experiment", {{"experiment_id", "1"}, {"lifecycle_stage", "active"}}}});
    }
    if (is("runs/search")) {
      json runs = json::array();
      for (const json& run : runs_) {
        const std::string filter = body["filter"];
        for (const json& tag : run["data"]["tags"]) {
          const std::string found = absl::StrCat("tags.`", tag["key"].get<std::string>(), "` = '",
                                                 tag["value"].get<std::string>(), "'");
          if (found == filter) runs.push_back(run);
        }
      }
      return answer({{"runs", runs}});
    }
    if (is("runs/create")) {
      runs_.push_back({{"info",
                        {{"run_id", absl::StrCat("run", runs_.size())},
                         {"experiment_id", "1"},
                         {"status", "RUNNING"},
                         {"artifact_uri", "mlflow-artifacts:/1/run/artifacts"}}},
                       {"data", {{"tags", body["tags"]}}}});
      if (!std::exchange(lose_creation_, false)) return answer({{"run", runs_.back()}});
      return absl::UnavailableError("cut");
    }
    if (is("runs/get")) {
      runs_.front()["info"]["lifecycle_stage"] = deleted_ ? "deleted" : "active";
      return answer({{"run", runs_.front()}});
    }
    if (deleted_) return FakeTransport::Code(400, kRefused);
    if (is("runs/update")) {
      status_ = body["status"];
      return answer(json::object());
    }
    if (!is("runs/log-batch")) return answer(json::object());
    for (const json& metric : body.value("metrics", json::array())) {
      if (refused_.count(metric["key"]) > 0) return FakeTransport::Code(400, kRefused);
    }
    batches_.push_back(body.value("metrics", json::array()).size());
    for (const json& metric : body.value("metrics", json::array())) {
      points_.insert({metric["key"], metric["step"], metric["value"].dump()});
    }
    for (const json& param : body.value("params", json::array())) {
      const auto [there, is_new] = params_.emplace(param["key"], param["value"]);
      if (!is_new && there->second != param["value"]) {
        return FakeTransport::Code(400, R"({"error_code":"INVALID_PARAMETER_VALUE",)"
                                        R"("message":"Changing param values is not allowed"})");
      }
    }
    for (const json& tag : body.value("tags", json::array())) tags_[tag["key"]] = tag["value"];
    return answer(json::object());
  }

  testing::StoredRun stored_{"http://127.0.0.1:5000"};
  CredentialStore credentials_{CredentialStore::Options{}};
  FakeTransport transport_{[this](const HttpRequest& request) { return Serve(request); }};
  std::vector<json> runs_;
  std::set<std::tuple<std::string, int64_t, std::string>> points_;
  std::map<std::string, std::string> params_;
  std::map<std::string, std::string> tags_;
  std::vector<size_t> batches_;  // points of the requests; 0: of params or tags
  std::string status_;
  std::set<std::string> refused_;
  bool lose_creation_ = false;
  bool deleted_ = false;
  model::Delivery stored_delivery_;  // as the daemon would store it
  absl::Time now_ = SteadyNow();
  std::unique_ptr<CircuitBreakers> breakers_;
  std::unique_ptr<RunDelivery> delivery_;
  std::vector<model::DeadLetter> letters_;
};

TEST_F(MlflowDeliveryTest, RunArrivesWithItsEnd) {
  stored_.Append(1500, "", /*shape=*/2);
  stored_.Close(model::RunState::kFailed, 3);
  Deliver();
  EXPECT_EQ(points_.size(), 3000u);
  EXPECT_THAT(batches_, Contains(1000).Times(3));
  EXPECT_EQ(status_, "FAILED");
  EXPECT_EQ(tags_["ranklog.exit_code"], "3");
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_EQ(stored_delivery_.delivered_rows, 1500u);
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(MlflowDeliveryTest, LostAnswerToTheCreationMakesNoSecondRun) {
  lose_creation_ = true;
  stored_.Append(1);
  Deliver(absl::Minutes(1));
  EXPECT_THAT(runs_, SizeIs(1));
  EXPECT_EQ(stored_delivery_.delivered_rows, 1u);
}

// Old servers refuse more than 100 points at once if they have some of them.
TEST_F(MlflowDeliveryTest, PointsThatMayBeThereGoInSmallRequests) {
  Deliver();
  stored_.Append(1500);
  transport_.AnswerNext(absl::UnavailableError("cut"));
  Deliver(absl::Minutes(1));
  EXPECT_EQ(points_.size(), 1500u);
  batches_.erase(std::remove(batches_.begin(), batches_.end(), 0), batches_.end());
  ASSERT_THAT(batches_, SizeIs(11));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(batches_[static_cast<size_t>(i)], 100u);
  EXPECT_EQ(batches_.back(), 500u);
}

TEST_F(MlflowDeliveryTest, NextDaemonContinuesTheRun) {
  stored_.Append(10);
  Deliver();
  stored_.Append(10);
  Restart();
  Deliver();
  EXPECT_THAT(runs_, SizeIs(1));
  EXPECT_EQ(points_.size(), 20u);
  EXPECT_EQ(stored_delivery_.delivered_rows, 20u);
}

TEST_F(MlflowDeliveryTest, RefusedPointIsSetApartAlone) {
  refused_ = {"x"};
  stored_.Append(5);
  stored_.Append(1, "", /*shape=*/2);
  stored_.Append(5);
  Deliver();
  EXPECT_EQ(points_.size(), 11u);
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_EQ(letters_[0].row, 5u);
  EXPECT_THAT(letters_[0].content, HasSubstr("\"x\""));
  EXPECT_EQ(stored_delivery_.refused_rows, 1u);
  EXPECT_EQ(stored_delivery_.delivered_rows, 11u);
}

TEST_F(MlflowDeliveryTest, DuplicateThatTheServerReportsIsThere) {
  Deliver();
  stored_.Append(1);
  transport_.AnswerNext(FakeTransport::Code(400, kThere));
  Deliver();
  EXPECT_EQ(stored_delivery_.delivered_rows, 1u);
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(MlflowDeliveryTest, DeletedRunBecomesDeadLettersAtItsEnd) {
  stored_.Append(2);
  Deliver();
  deleted_ = true;
  stored_.Append(3);
  Deliver();
  EXPECT_THAT(letters_, IsEmpty());  // a person may restore it
  EXPECT_THAT(stored_delivery_.last_error, HasSubstr("deleted"));
  stored_.Close(model::RunState::kFinished, 0);
  Deliver(absl::Minutes(2));
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_THAT(letters_[0].answer, HasSubstr("rows 2 to 4: the run is deleted"));
  EXPECT_EQ(stored_delivery_.refused_rows, 3u);
  EXPECT_TRUE(stored_delivery_.complete);
}

TEST_F(MlflowDeliveryTest, RestoredRunGoesOn) {
  stored_.Append(2);
  Deliver();
  deleted_ = true;
  stored_.Append(3);
  Deliver();
  deleted_ = false;
  Deliver(absl::Minutes(2));
  EXPECT_EQ(points_.size(), 5u);
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(MlflowDeliveryTest, ConfigBecomesParamsAndALaterValueATag) {
  stored_.Apply(model::Item::Kind::kConfig,
                {{"lr", 0.1}, {"model", {{"layers", 12}, {"norm", true}}}, {"sizes", {1, 2}}});
  Deliver();
  EXPECT_EQ(params_["lr"], "0.1");
  EXPECT_EQ(params_["model.layers"], "12");
  EXPECT_EQ(params_["model.norm"], "True");
  EXPECT_EQ(params_["sizes"], "[1,2]");
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.2}});
  Restart();
  Deliver();
  EXPECT_EQ(params_["lr"], "0.1");
  EXPECT_EQ(tags_["ranklog.config.lr"], "0.2");
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(MlflowDeliveryTest, CutParamIsTold) {
  stored_.Apply(model::Item::Kind::kConfig, {{"long", std::string(7000, 'a')}});
  Deliver();
  Restart();
  Deliver();
  EXPECT_EQ(params_["long"].size(), 6000u);
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_THAT(letters_[0].answer, HasSubstr("7000 characters; MLflow has the first 6000"));
}

TEST_F(MlflowDeliveryTest, TextOfARowIsToldOnce) {
  stored_.Append(3, "hello");
  stored_.Append(3, "again");
  Deliver();
  Restart();
  Deliver();
  EXPECT_EQ(points_.size(), 6u);
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_THAT(letters_[0].answer, HasSubstr("key note"));
  EXPECT_EQ(stored_delivery_.refused_rows, 0u);
}

TEST_F(MlflowDeliveryTest, SummaryBecomesMetricsAndTags) {
  model::MetricDefinition lowest;
  lowest.name = "loss";
  lowest.summary = {"min"};
  stored_.Define(lowest);
  stored_.Append(3);
  stored_.Apply(model::Item::Kind::kSummary, {{"best", 0.5}, {"verdict", "good"}});
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  EXPECT_THAT(points_, Contains(std::tuple("loss.min", 2, "0.5")));
  EXPECT_THAT(points_, Contains(std::tuple("best", 2, "0.5")));
  EXPECT_EQ(tags_["ranklog.summary.verdict"], "good");
}

// A rank that resumes and logs nothing, or the reader of a console that joins late.
TEST_F(MlflowDeliveryTest, SecondEndRepeatsNoSummary) {
  stored_.Append(3);
  stored_.Apply(model::Item::Kind::kSummary, {{"best", 0.5}});
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ASSERT_TRUE(stored_delivery_.complete);
  batches_.clear();
  stored_delivery_.complete = false;
  Restart();
  Deliver();
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_THAT(batches_, IsEmpty());
}

TEST_F(MlflowDeliveryTest, SystemMetricsHaveTheirOwnSteps) {
  for (int i = 0; i < 3; ++i) {
    stored_.Write([&](storage::Store& store) {
      EXPECT_OK(store.AppendSample(stored_.run().id,
                                   {.time_us = testing::kRunStartUs, .values = {{"cpu", 1.5}}}));
    });
  }
  Deliver();
  EXPECT_THAT(points_, Contains(std::tuple("system/cpu_utilization_percentage", 2, "1.5")));
  EXPECT_THAT(points_, SizeIs(3));
}

}  // namespace
}  // namespace ranklog::deliver::mlflow
