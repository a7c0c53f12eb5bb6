// A run in a real store, and its server over real HTTP.

#ifndef TESTS_SERVICE_DELIVER_WANDB_HTTP_DELIVERY_H_
#define TESTS_SERVICE_DELIVER_WANDB_HTTP_DELIVERY_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/deliver/credentials.h"
#include "service/deliver/http/circuit_breaker.h"
#include "service/deliver/http/curl_transport.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "tests/service/deliver/wandb/stored_run.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/wandb_account.h"

namespace ranklog::deliver::wandb {

class HttpDeliveryTest : public ::testing::Test {
 protected:
  using FakeWandb = testing::FakeWandb;

  HttpDeliveryTest() : credentials_(CredentialStore::Options{}) {
    EXPECT_OK(
        credentials_.Set(JobOf("p", "r"), testing::WandbAccount(server_.url()), {.secret = key_}));
    server_.RequireKey(key_);
    stored_delivery_.run = stored_.run().id;
    stored_delivery_.kind = kKind;
    transport_ = CurlTransport::Create({}).value();
  }

  // A new daemon delivers the run.
  void Restart(const WandbDelivery::Options& options) {
    breakers_ = std::make_unique<CircuitBreakers>(Backoff::Options{}, [this] { return now_; });
    delivery_ = std::make_unique<WandbDelivery>(stored_.run(), stored_delivery_,
                                                DeliveryParts{.transport = transport_.get(),
                                                              .breakers = breakers_.get(),
                                                              .credentials = &credentials_,
                                                              .content_dir = content_dir_},
                                                options);
  }
  // Steps until there is nothing more to do now. Passes up to `patience` of waits.
  void Deliver(absl::Duration patience = absl::ZeroDuration()) {
    for (int steps = 0; steps < 100; ++steps) {
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

  const std::string key_ = std::string(40, 'k');
  testing::FakeWandb server_;
  testing::StoredRun stored_{server_.url()};
  CredentialStore credentials_;
  std::unique_ptr<CurlTransport> transport_;
  model::Delivery stored_delivery_;  // as the daemon would store it
  std::string content_dir_;          // of the files that ranks staged
  absl::Time now_ = SteadyNow();
  std::unique_ptr<CircuitBreakers> breakers_;
  std::unique_ptr<WandbDelivery> delivery_;
  std::vector<model::DeadLetter> letters_;
};

}  // namespace ranklog::deliver::wandb

#endif  // TESTS_SERVICE_DELIVER_WANDB_HTTP_DELIVERY_H_
