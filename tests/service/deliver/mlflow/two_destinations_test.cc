// A run with two destinations: W&B's fake server over HTTP, and an MLflow server that is down. S57.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "service/base/clock.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/circuit_breaker.h"
#include "service/deliver/http/curl_transport.h"
#include "tests/service/deliver/wandb/stored_run.h"
#include "tests/support/fake_transport.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/wandb_account.h"

namespace ranklog::deliver::mlflow {
namespace {

using testing::FakeTransport;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TwoDestinationsTest : public ::testing::Test {
 protected:
  struct To {
    std::unique_ptr<RunDelivery> delivery;
    model::Delivery stored;
    absl::Time next = absl::InfinitePast();
  };

  TwoDestinationsTest() {
    const std::string key(40, 'k');
    EXPECT_OK(credentials_.Set(JobOf("p", "r"), testing::WandbAccount(wandb_server_.url()),
                               {.secret = key}));
    wandb_server_.RequireKey(key);
    curl_ = CurlTransport::Create({}).value();
    Begin("wandb", curl_.get(), &wandb_);
    Begin("mlflow", &mlflow_server_, &mlflow_);
  }
  void Begin(const std::string& kind, Transport* transport, To* to) {
    to->stored.run = stored_.run().id;
    to->stored.kind = kind;
    to->delivery = FindDestination(kind)->Deliver(
        stored_.run(), to->stored,
        {.transport = transport, .breakers = &breakers_, .credentials = &credentials_});
  }
  // As the deliver loop: each delivery has its own time for the next step.
  void Pass(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end; now_ += absl::Seconds(1)) {
      for (To* const to : {&wandb_, &mlflow_}) {
        for (int steps = 0; to->next <= now_ && steps < 100; ++steps) {
          const StepResult result = to->delivery->Step(stored_.reader(), now_, /*draining=*/false);
          to->stored = result.delivery;
          to->next = now_ + result.wait;
          if (result.wait > absl::ZeroDuration()) break;
        }
      }
    }
  }
  FakeTransport::Answer Serve(const HttpRequest& request) const {
    if (is_down_) return absl::UnavailableError("connection refused");
    if (absl::StrContains(request.url, "experiments/")) {
      return FakeTransport::Code(200, R"({"experiment":{"experiment_id":"1"}})");
    }
    if (!absl::StrContains(request.url, "runs/create")) return FakeTransport::Code(200);
    return FakeTransport::Code(
        200, R"({"run":{"info":{"run_id":"a","experiment_id":"1","status":"RUNNING"}}})");
  }

  testing::FakeWandb wandb_server_;
  FakeTransport mlflow_server_{[this](const HttpRequest& request) { return Serve(request); }};
  testing::StoredRun stored_{wandb_server_.url()};
  CredentialStore credentials_{CredentialStore::Options{}};
  std::unique_ptr<CurlTransport> curl_;
  absl::Time now_ = SteadyNow();
  CircuitBreakers breakers_{Backoff::Options{}, [this] { return now_; }};
  bool is_down_ = true;
  To wandb_;
  To mlflow_;
};

TEST_F(TwoDestinationsTest, OneIsDownForAnHourAndTheOtherIsUpToDate) {
  for (int minute = 0; minute < 60; ++minute) {
    stored_.Append(10);
    Pass(absl::Minutes(1));
    EXPECT_EQ(wandb_.stored.delivered_rows, stored_.run().rows);
    EXPECT_THAT(wandb_.stored.last_error, IsEmpty());
    EXPECT_EQ(mlflow_.stored.delivered_rows, 0u);
    EXPECT_THAT(mlflow_.stored.last_error, HasSubstr("connection refused"));
  }
  EXPECT_LT(mlflow_server_.sent().size(), 150u) << "it is asked once a minute";
  is_down_ = false;
  Pass(absl::Minutes(2));
  EXPECT_EQ(mlflow_.stored.delivered_rows, 600u);
  EXPECT_THAT(mlflow_.stored.last_error, IsEmpty());
  stored_.Close(model::RunState::kFinished, 0);
  Pass(absl::Minutes(1));
  EXPECT_TRUE(wandb_.stored.complete);
  EXPECT_TRUE(mlflow_.stored.complete);
}

}  // namespace
}  // namespace ranklog::deliver::mlflow
