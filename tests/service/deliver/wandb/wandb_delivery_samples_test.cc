// System metrics at the server: lines of wandb-events.jsonl.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "tests/service/deliver/wandb/http_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class WandbDeliverySamplesTest : public HttpDeliveryTest {
 protected:
  WandbDeliverySamplesTest() { Restart(); }
  void Restart() { HttpDeliveryTest::Restart(WandbDelivery::Options{.files = false}); }
  void Sample(double cpu) {
    stored_.Write([&](storage::Store& store) {
      EXPECT_OK(store.AppendSample(stored_.run().id,
                                   {.time_us = testing::kRunStartUs + 15'000'000,
                                    .values = {{"cpu", cpu}, {"disk./.usageGB", 2.5}}}));
    });
  }
  std::vector<double> Cpus() const {
    std::vector<double> cpus;
    for (const std::string& event : server_.run("r").events) {
      cpus.push_back(nlohmann::json::parse(event)["system.cpu"]);
    }
    return cpus;
  }
};

TEST_F(WandbDeliverySamplesTest, ALineHasTheSamplesValues) {
  stored_.Append(1);
  Sample(12.5);
  Deliver();
  ASSERT_THAT(server_.run("r").events, SizeIs(1));
  EXPECT_EQ(nlohmann::json::parse(server_.run("r").events[0]),
            nlohmann::json({{"_wandb", true},
                            {"_timestamp", 1767322815},
                            {"_runtime", 15},
                            {"system.cpu", 12.5},
                            {"system.disk./.usageGB", 2.5}}));
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbDeliverySamplesTest, ARunWithoutRowsHasThem) {
  Deliver();
  Sample(1);
  Deliver();
  EXPECT_THAT(Cpus(), ElementsAre(1));
}

TEST_F(WandbDeliverySamplesTest, ThePostsAfterALostAnswerRepeatTheirLines) {
  stored_.Append(1);
  Sample(1);
  server_.Inject({.code = 0, .act = true});
  Deliver();
  Sample(2);
  Restart();
  Deliver();
  Sample(3);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  EXPECT_THAT(Cpus(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbDeliverySamplesTest, TheEndComesAfterAllOfThem) {
  stored_.Append(1);
  for (int i = 0; i < 1500; ++i) Sample(i);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  EXPECT_THAT(Cpus(), SizeIs(1500));
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_TRUE(server_.run("r").complete);
}

TEST_F(WandbDeliverySamplesTest, RefusedOnesStopNothing) {
  server_.RefuseLines(
      [](const std::string& line) { return line.find("\"system.cpu\":666") != std::string::npos; });
  stored_.Append(3);
  Sample(666);
  Deliver();
  EXPECT_THAT(server_.run("r").history, SizeIs(3));
  Sample(1);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  EXPECT_THAT(Cpus(), ElementsAre(1));
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_THAT(letters_[0].answer, HasSubstr("system metrics: "));
  EXPECT_EQ(stored_delivery_.refused_rows, 0u);
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbDeliverySamplesTest, GoAfterThoseOfAnotherProgram) {
  server_.AddExistingRun("r", 5);
  server_.Tamper("r", [](auto& run) {
    for (int i = 0; i < 3; ++i)
      run.events.push_back(absl::StrCat(R"({"system.cpu":)", 50 + i, "}"));
  });
  stored_.Append(1);
  Sample(1);
  Deliver();
  EXPECT_THAT(Cpus(), ElementsAre(50, 51, 52, 1));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
