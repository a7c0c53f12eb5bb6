// A run in a real store, and its server over real HTTP.

#ifndef TESTS_SERVICE_DELIVER_WANDB_HTTP_DELIVERY_H_
#define TESTS_SERVICE_DELIVER_WANDB_HTTP_DELIVERY_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "service/deliver/credentials.h"
#include "service/deliver/curl_transport.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "tests/service/deliver/wandb/stored_run.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/wandb_account.h"

namespace ranklog::deliver::wandb {

class HttpDeliveryTest : public ::testing::Test {
 protected:
  HttpDeliveryTest() : credentials_(CredentialStore::Options{}) {
    EXPECT_OK(
        credentials_.Set(JobOf("p", "r"), testing::WandbAccount(server_.url()), {.secret = key_}));
    server_.RequireKey(key_);
    stored_delivery_.run = stored_.run().id;
    stored_delivery_.kind = kKind;
    transport_ = CurlTransport::Create({}).value();
  }

  const std::string key_ = std::string(40, 'k');
  testing::FakeWandb server_;
  testing::StoredRun stored_{server_.url()};
  CredentialStore credentials_;
  std::unique_ptr<CurlTransport> transport_;
  model::Delivery stored_delivery_;  // as the daemon would store it
};

}  // namespace ranklog::deliver::wandb

#endif  // TESTS_SERVICE_DELIVER_WANDB_HTTP_DELIVERY_H_
