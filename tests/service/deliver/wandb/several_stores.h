// A run that several stores feed, each with a daemon that delivers from it.

#ifndef TESTS_SERVICE_DELIVER_WANDB_SEVERAL_STORES_H_
#define TESTS_SERVICE_DELIVER_WANDB_SEVERAL_STORES_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "tests/service/deliver/wandb/stored_run.h"
#include "tests/support/fake_transport.h"
#include "tests/support/wandb_account.h"
#include "tests/support/wandb_server.h"

namespace ranklog::deliver::wandb {

inline constexpr char kTrackerOfStores[] = "https://wandb.example.com";
inline constexpr int64_t kAnHourUs = 3'600'000'000;

class SeveralStoresTest : public ::testing::Test {
 protected:
  // A node's store, and the daemon that delivers from it.
  struct NodeStore {
    NodeStore(SeveralStoresTest* test, int64_t first_step, int64_t start_us)
        : test(*test),
          stored(kTrackerOfStores, first_step, start_us),
          transport([test](const HttpRequest& request) { return test->Act(request); }) {
      delivery.run = stored.run().id;
      delivery.kind = kKind;
      Restart();
    }
    void Restart() {
      breakers =
          std::make_unique<CircuitBreakers>(Backoff::Options{}, [this] { return test.now_; });
      wandb = std::make_unique<WandbDelivery>(stored.run(), delivery,
                                              DeliveryParts{.transport = &transport,
                                                            .breakers = breakers.get(),
                                                            .credentials = &test.credentials_},
                                              options);
    }
    StepResult Step() {
      StepResult result = wandb->Step(stored.reader(), test.now_, /*draining=*/true);
      if (result.changed) delivery = result.delivery;
      return result;
    }
    // Steps until the delivery has to wait.
    StepResult Deliver() {
      for (int i = 0; i < 200; ++i) {
        if (StepResult result = Step(); result.wait > absl::ZeroDuration()) return result;
      }
      ADD_FAILURE() << "never idle";
      return {};
    }
    // Posts its rows and dies. `server` decides what the server did with the request.
    void PostAndDie(const std::function<void(const HttpRequest&)>& server) {
      for (int i = 0; i < 200; ++i) {
        const uint64_t cut = delivery.cursor.is_object() ? delivery.cursor.value("cut_rows", 0) : 0;
        if (cut > 0) break;
        Step();
      }
      transport.AnswerNext(absl::UnavailableError("no answer"));
      Step();
      server(transport.sent().back());
      Restart();
    }
    std::vector<std::string> Said() const {
      std::vector<std::string> bodies;
      for (const HttpRequest& request : transport.sent()) bodies.push_back(request.body);
      return bodies;
    }

    SeveralStoresTest& test;
    WandbDelivery::Options options{.files = false};
    testing::StoredRun stored;
    testing::FakeTransport transport;
    model::Delivery delivery;
    std::unique_ptr<CircuitBreakers> breakers;
    std::unique_ptr<WandbDelivery> wandb;
  };

  SeveralStoresTest() {
    EXPECT_OK(credentials_.Set(JobOf("p", "r"), testing::WandbAccount(kTrackerOfStores),
                               {.secret = std::string(40, 'k')}));
    server_.ExpectSeveralStores();
  }

  testing::FakeTransport::Answer Act(const HttpRequest& request) {
    const std::vector<std::string> parts = absl::StrSplit(request.url, '/');
    const testing::WandbServer::Answer answer =
        parts.size() == 8 ? server_.FileStream(parts[4], parts[5], parts[6], request.body)
                          : server_.Graphql(request.body);
    return testing::FakeTransport::Code(answer.code, answer.body.dump());
  }
  // Returns the steps of the lines, in order.
  std::vector<int> Lines() {
    std::vector<int> steps;
    for (const std::string& line : server_.RunOf("r").history) {
      steps.push_back(testing::ParseExtendedJson(line)["_step"].get<int>());
    }
    return steps;
  }
  void ExpectEndOf(NodeStore& node, const std::string& name, int exit_code) {
    const testing::WandbServer::Run& run = server_.RunOf("r");
    EXPECT_THAT(server_.errors(), ::testing::IsEmpty());
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(run.exit_code, exit_code);
    EXPECT_EQ(nlohmann::json::parse(run.config)["from"]["value"], name);
    EXPECT_EQ(testing::ParseExtendedJson(run.summary)["from"], name);
    EXPECT_TRUE(node.delivery.complete) << node.delivery.last_error;
  }
  static void SetLogPrefix(NodeStore& node, const std::string& name) {
    node.stored.Apply(model::Item::Kind::kConfig, {{"from", name}});
    node.stored.Apply(model::Item::Kind::kSummary, {{"from", name}});
  }
  // The job continues at the other node, logs two rows, and finishes.
  void ContinueAtB() {
    SetLogPrefix(b_, "b");
    b_.stored.Append(2);
    b_.stored.Close(model::RunState::kFinished, 0);
    EXPECT_TRUE(b_.Deliver().delivery.complete) << b_.delivery.last_error;
  }

  testing::WandbServer server_{"http://127.0.0.1/storage"};
  CredentialStore credentials_{CredentialStore::Options{}};
  absl::Time now_ = absl::FromUnixSeconds(1767322800);
  NodeStore a_{this, 0, testing::kRunStartUs};
  NodeStore b_{this, 100, testing::kRunStartUs + kAnHourUs};
};

}  // namespace ranklog::deliver::wandb

#endif  // TESTS_SERVICE_DELIVER_WANDB_SEVERAL_STORES_H_
