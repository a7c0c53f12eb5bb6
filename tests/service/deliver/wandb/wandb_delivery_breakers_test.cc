// The circuit breakers that deliveries to one server share: which deliveries wait when one fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "tests/service/deliver/wandb/stored_run.h"
#include "tests/support/fake_transport.h"
#include "tests/support/wandb_account.h"

namespace ranklog::deliver::wandb {
namespace {

using ranklog::testing::FakeTransport;
using ranklog::testing::StoredRun;

constexpr char kServer[] = "https://wandb.example.com";
constexpr char kMadeRun[] =
    R"({"data":{"upsertBucket":{"bucket":{"id":"s1","name":"r","displayName":"d",
        "project":{"name":"pp","entity":{"name":"ee"}}}}}})";

constexpr char kNoSuchRun[] = R"({"data":{"model":{"bucket":null}}})";

// Two runs of one project, and the answers that each gets.
class WandbDeliveryBreakersTest : public ::testing::Test {
 protected:
  struct Side {
    explicit Side(WandbDeliveryBreakersTest* test) {
      stored.Append(3);
      delivery.run = stored.run().id;
      delivery.kind = kKind;
      wandb = std::make_unique<WandbDelivery>(stored.run(), delivery,
                                              DeliveryParts{.transport = &transport,
                                                            .breakers = &test->breakers_,
                                                            .credentials = &test->credentials_},
                                              WandbDelivery::Options{.files = false});
    }
    size_t requests() const { return transport.sent().size(); }

    StoredRun stored{kServer};
    int code = 200;
    absl::optional<absl::Duration> retry_after;
    absl::optional<absl::Duration> quota_after;
    FakeTransport transport{[this](const HttpRequest& request) -> FakeTransport::Answer {
      if (code < 0) return absl::CancelledError("the transport is shut down");
      if (code == 0) return absl::UnavailableError("no connection");
      HttpResponse response = FakeTransport::Code(code);
      if (absl::StrContains(request.body, "query RunResumeStatus(")) response.body = kNoSuchRun;
      if (absl::StrContains(request.body, "mutation UpsertBucket")) response.body = kMadeRun;
      response.retry_after = retry_after;
      response.quota_after = quota_after;
      return response;
    }};
    model::Delivery delivery;
    std::unique_ptr<WandbDelivery> wandb;
  };

  WandbDeliveryBreakersTest() {
    EXPECT_OK(credentials_.Set(JobOf("p", "r"), testing::WandbAccount(kServer),
                               {.secret = std::string(40, 'k')}));
  }

  StepResult StepOf(Side& side) {
    return side.wandb->Step(side.stored.reader(), now_, /*draining=*/false);
  }
  absl::Duration Step(Side& side) { return StepOf(side).wait; }

  absl::Time now_ = absl::FromUnixSeconds(1767322800);
  CredentialStore credentials_{CredentialStore::Options{}};
  CircuitBreakers breakers_{Backoff::Options{}, [this] { return now_; }};
  Side one_{this};
  Side two_{this};
};

TEST_F(WandbDeliveryBreakersTest, OneRunProbesAnAbsentServer) {
  one_.code = two_.code = 0;
  const absl::Duration wait = Step(one_);
  EXPECT_GT(wait, absl::Seconds(2));
  const absl::Duration others = Step(two_);
  EXPECT_EQ(two_.requests(), 0u);
  EXPECT_LT(others, wait);  // so that the other run sends the next request
  now_ += others;
  Step(one_);
  EXPECT_EQ(one_.requests(), 1u);
  EXPECT_GT(Step(two_), absl::Seconds(4));
  EXPECT_EQ(two_.requests(), 1u);
}

TEST_F(WandbDeliveryBreakersTest, RateLimitAppliesToWholeProject) {
  one_.code = 429;
  one_.retry_after = absl::Seconds(7);
  EXPECT_EQ(StepOf(one_).delivery.last_error, "ask for the server's features: HTTP 429: {}");
  const StepResult waiting = StepOf(two_);
  EXPECT_EQ(waiting.wait, absl::Seconds(7));
  EXPECT_TRUE(waiting.changed);
  EXPECT_EQ(waiting.delivery.last_error, "ask for the server's features: HTTP 429: {}");
  EXPECT_EQ(two_.requests(), 0u);
  now_ += absl::Seconds(7);
  EXPECT_EQ(Step(two_), absl::ZeroDuration());
  EXPECT_EQ(two_.requests(), 1u);
}

// After a delivery succeeds, it does not show an earlier reason to wait.
TEST_F(WandbDeliveryBreakersTest, BreakerReasonClearsAfterDelivery) {
  one_.code = 429;
  one_.retry_after = absl::Seconds(7);
  Step(one_);
  EXPECT_NE(StepOf(two_).delivery.last_error, "");
  now_ += absl::Seconds(7);
  StepResult result;
  for (int i = 0; i < 20 && result.delivery.delivered_rows < 3; ++i) {
    result = StepOf(two_);
    now_ += std::min(result.wait, absl::Minutes(1));
  }
  EXPECT_EQ(result.delivery.delivered_rows, 3u);
  EXPECT_EQ(result.delivery.last_error, "");
}

TEST_F(WandbDeliveryBreakersTest, RunWithoutBacklogReportsNoError) {
  one_.code = 429;
  one_.retry_after = absl::Seconds(7);
  Step(one_);
  two_.delivery.delivered_rows = 3;
  two_.wandb = std::make_unique<WandbDelivery>(
      two_.stored.run(), two_.delivery,
      DeliveryParts{
          .transport = &two_.transport, .breakers = &breakers_, .credentials = &credentials_},
      WandbDelivery::Options{.files = false});
  EXPECT_EQ(StepOf(two_).delivery.last_error, "");
}

// The daemon cancels it because it stops. The stored error stays, for later readers.
TEST_F(WandbDeliveryBreakersTest, CancelledRequestIsNotAnError) {
  one_.code = -1;
  const StepResult result = StepOf(one_);
  EXPECT_EQ(result.delivery.last_error, "");
  EXPECT_GT(result.wait, absl::ZeroDuration());
  EXPECT_EQ(Step(two_), absl::ZeroDuration()) << "nothing is known against the server";
}

// Like the official client, which paces its posts by the quota. A GraphQL query does not count.
TEST_F(WandbDeliveryBreakersTest, ExhaustedQuotaDelaysWholeProject) {
  one_.quota_after = absl::Seconds(20);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(Step(one_), absl::ZeroDuration()) << i;
  EXPECT_EQ(one_.requests(), 3u);
  Step(one_);  // posts the rows
  ASSERT_EQ(one_.requests(), 4u);
  EXPECT_EQ(Step(one_), absl::Seconds(20));
  EXPECT_EQ(Step(two_), absl::Seconds(20));
  EXPECT_EQ(two_.requests(), 0u);
  now_ += absl::Seconds(20);
  EXPECT_EQ(Step(two_), absl::ZeroDuration());
  EXPECT_EQ(two_.requests(), 1u);
}

TEST_F(WandbDeliveryBreakersTest, OneFailingRunDelaysNoOther) {
  one_.code = 500;
  for (int i = 0; i < 3; ++i) Step(one_);  // an answer of 500 for the features is accepted
  EXPECT_EQ(one_.requests(), 2u);
  now_ += Step(two_);
  EXPECT_EQ(Step(two_), absl::ZeroDuration());
  now_ += absl::Seconds(1);
  const absl::Duration own = Step(one_);
  EXPECT_EQ(one_.requests(), 3u);
  EXPECT_GT(own, absl::Seconds(1));
  EXPECT_EQ(Step(two_), absl::ZeroDuration());
  EXPECT_EQ(two_.requests(), 2u);
}

TEST_F(WandbDeliveryBreakersTest, RunEndedWhileWaitingIsBacklog) {
  one_.code = 0;
  Step(one_);
  EXPECT_TRUE(StepOf(two_).live);
  two_.stored.Close(model::RunState::kFinished, 0);
  EXPECT_FALSE(StepOf(two_).live);
  EXPECT_EQ(two_.requests(), 0u);
}

TEST_F(WandbDeliveryBreakersTest, RefusedKeyAffectsItsRunOnly) {
  one_.code = 401;
  EXPECT_GT(Step(one_), absl::ZeroDuration());
  EXPECT_EQ(Step(two_), absl::ZeroDuration());
  EXPECT_EQ(two_.requests(), 1u);
}

}  // namespace
}  // namespace ranklog::deliver::wandb
