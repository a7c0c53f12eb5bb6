// What a run and the people at the server tell each other: alerts, and the request to stop.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/deliver/wandb/api/server_json.h"
#include "tests/service/deliver/wandb/http_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kOperation[] = "NotifyScriptableRunAlert";

class WandbDeliveryAlertsTest : public HttpDeliveryTest {
 protected:
  WandbDeliveryAlertsTest() { Restart(); }
  void Restart() { HttpDeliveryTest::Restart({.files = false}); }
  void Alert(const std::string& title, const std::string& level = "WARN") {
    stored_.Apply(model::Item::Kind::kAlert,
                  {{"title", title}, {"text", "of " + title}, {"level", level}, {"wait_ms", 5000}});
  }
  void End() {
    stored_.Close(model::RunState::kFinished, 0);
    Deliver(absl::Minutes(5));
  }
  std::vector<std::string> Titles() {
    std::vector<std::string> titles;
    for (const json& alert : server_.run("r").alerts) titles.push_back(alert["title"]);
    return titles;
  }
  void Refuse() {
    server_.Inject({.on = FakeWandb::Fault::On::kGraphql,
                    .code = 200,
                    .body = R"({"errors":[{"message":"too many alerts"}],"data":null})",
                    .operation = kOperation});
  }
};

TEST_F(WandbDeliveryAlertsTest, AreSentOnceInOrder) {
  Alert("one");
  Alert("two", "ERROR");
  stored_.Append(1);
  Deliver();
  Alert("three");
  Deliver();
  Restart();
  Deliver();
  End();
  EXPECT_THAT(Titles(), ElementsAre("one", "two", "three"));
  EXPECT_EQ(
      server_.run("r").alerts[1],
      json({{"title", "two"}, {"text", "of two"}, {"severity", "ERROR"}, {"waitDuration", 5000}}));
  EXPECT_TRUE(server_.run("r").complete);
  EXPECT_EQ(stored_delivery_.delivered_items, stored_.run().last_item);
  EXPECT_THAT(server_.errors(), IsEmpty());
}

// Of a run whose job may have crashed.
TEST_F(WandbDeliveryAlertsTest, PrecedeTheFirstRow) {
  Alert("one");
  stored_.Append(1);
  Deliver();
  bool alerted = false;
  for (const auto& request : server_.requests()) {
    alerted |= request.operation == kOperation;
    const bool posts = request.path.find("file_stream") != std::string::npos;
    EXPECT_TRUE(alerted || !posts);
  }
  EXPECT_TRUE(alerted);
}

TEST_F(WandbDeliveryAlertsTest, RefusedOneIsADeadLetter) {
  Refuse();
  Alert("one");
  Alert("two");
  stored_.Append(1);
  End();
  EXPECT_THAT(Titles(), ElementsAre("two"));
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_THAT(letters_[0].answer, AllOf(StartsWith("alert: "), HasSubstr("too many alerts")));
  EXPECT_EQ(json::parse(letters_[0].content)["title"], "one");
  EXPECT_FALSE(IsOfRow(letters_[0]));
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_EQ(stored_delivery_.refused_rows, 0u);
}

TEST_F(WandbDeliveryAlertsTest, AnswerWithoutSuccessIsARefusal) {
  Alert("");  // the library refuses it; the server says only that it has no success
  stored_.Append(1);
  End();
  EXPECT_THAT(letters_, SizeIs(1));
  EXPECT_TRUE(stored_delivery_.complete);
}

TEST_F(WandbDeliveryAlertsTest, ServerThatFailsGetsItLater) {
  server_.Inject(
      {.on = FakeWandb::Fault::On::kGraphql, .times = 2, .code = 503, .operation = kOperation});
  Alert("one");
  Deliver();
  EXPECT_THAT(Titles(), IsEmpty());
  EXPECT_THAT(stored_delivery_.last_error, HasSubstr("send an alert"));
  EXPECT_LT(stored_delivery_.delivered_items, stored_.run().last_item);
  EXPECT_FALSE(stored_delivery_.complete);
  End();
  EXPECT_THAT(Titles(), ElementsAre("one"));
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_THAT(stored_delivery_.last_error, IsEmpty());
  EXPECT_EQ(stored_delivery_.delivered_items, stored_.run().last_item);
}

// The cursor is stored after the answer: an alert that nobody gets is worse than two.
TEST_F(WandbDeliveryAlertsTest, ServerThatForbidsThemHoldsUpNoRow) {
  server_.Inject(
      {.on = FakeWandb::Fault::On::kGraphql, .times = 1000, .code = 403, .operation = kOperation});
  Alert("one");
  stored_.Append(2);
  End();
  EXPECT_THAT(server_.run("r").history, SizeIs(2));
  EXPECT_TRUE(server_.run("r").complete);
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_THAT(letters_[0].answer, HasSubstr("HTTP 403"));
}

TEST_F(WandbDeliveryAlertsTest, ServerThatFailsWithThemHoldsUpNoRow) {
  server_.Inject(
      {.on = FakeWandb::Fault::On::kGraphql, .times = 2, .code = 500, .operation = kOperation});
  Alert("one");
  stored_.Append(2);
  Deliver();
  EXPECT_THAT(server_.run("r").history, SizeIs(2));
  EXPECT_THAT(Titles(), IsEmpty());
  EXPECT_EQ(stored_delivery_.delivered_items, 0);
  End();
  EXPECT_THAT(Titles(), ElementsAre("one"));
  EXPECT_TRUE(server_.run("r").complete);
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(WandbDeliveryAlertsTest, LostAnswerRepeatsIt) {
  server_.Inject(
      {.on = FakeWandb::Fault::On::kGraphql, .code = 0, .act = true, .operation = kOperation});
  Alert("one");
  End();
  EXPECT_THAT(Titles(), ElementsAre("one", "one"));
  EXPECT_TRUE(stored_delivery_.complete);
}

// Another store has newer rows, so it sends config, summary and end; our alerts are ours.
TEST_F(WandbDeliveryAlertsTest, ContinuedStoreSendsItsOwn) {
  server_.ExpectSeveralStores();
  stored_.Append(1);
  Deliver();
  server_.Tamper("r", [](FakeWandb::Run& run) {
    const std::string later = R"({"_step":9,"_timestamp":1867322800.5,"loss":1})";
    run.history.push_back(later);
    run.summary = later;
    run.complete = true;
  });
  Alert("one");
  stored_.Append(1);
  now_ += absl::Minutes(1);
  End();
  EXPECT_THAT(Titles(), ElementsAre("one"));
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_EQ(stored_delivery_.delivered_items, stored_.run().last_item);
}

class WandbDeliveryStopTest : public WandbDeliveryAlertsTest {
 protected:
  void SetStopped(bool stopped) {
    server_.Tamper("r", [stopped](FakeWandb::Run& run) { run.stopped = stopped; });
  }
  bool StopRequested() { return delivery_->Step(stored_.reader(), now_, /*draining=*/true).stop; }
};

TEST_F(WandbDeliveryStopTest, LastAnswerOfTheServerCounts) {
  stored_.Append(1);
  Deliver();
  EXPECT_FALSE(StopRequested());
  SetStopped(true);
  stored_.Append(1);
  Deliver();
  EXPECT_TRUE(StopRequested());
  EXPECT_TRUE(StopRequested()) << "without another request";
  SetStopped(false);
  stored_.Append(1);
  Deliver();
  EXPECT_FALSE(StopRequested());
}

TEST_F(WandbDeliveryStopTest, HeartbeatAsksToo) {
  stored_.Append(1);
  Deliver();
  SetStopped(true);
  now_ += absl::Seconds(31);
  Deliver();
  EXPECT_TRUE(StopRequested());
}

// A start that continues the run is not stopped by the request to an earlier one, unless the server
// says so again.
TEST_F(WandbDeliveryStopTest, EndsWithTheRun) {
  stored_.Append(1);
  Deliver();
  SetStopped(true);
  stored_.Append(1);
  Deliver();
  End();
  ASSERT_TRUE(stored_delivery_.complete);
  EXPECT_FALSE(StopRequested());
  SetStopped(false);
  stored_.Attach();
  stored_.Append(1);
  Deliver();
  EXPECT_FALSE(StopRequested());
}

TEST(SaysStopTest, OnlyTheBoolCounts) {
  const auto says = [](const std::string& body) {
    HttpResponse answer;
    answer.body = body;
    return SaysStop(answer);
  };
  EXPECT_TRUE(says(R"({"exitcode":null,"stopped":true})"));
  for (const char* const other :
       {"{}", R"({"stopped":false})", R"({"stopped":1})", R"({"stopped":"true"})",
        R"({"limits":{"stopped":true}})", R"(["stopped"])", R"("stopped")", "\"stopped\":true"}) {
    EXPECT_FALSE(says(other)) << other;
  }
}

}  // namespace
}  // namespace ranklog::deliver::wandb
