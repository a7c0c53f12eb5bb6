// WandbDelivery over real HTTP, to a server that fails in every way. Each row is there once, in its
// place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/service/deliver/wandb/http_delivery.h"
#include "tests/support/wandb_account.h"

namespace ranklog::deliver::wandb {
namespace {

using ranklog::testing::FakeWandb;
using ranklog::testing::ParseExtendedJson;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Fault = FakeWandb::Fault;

class WandbDeliveryFaultsTest : public HttpDeliveryTest {
 protected:
  // Delivers to the end, on a clock that jumps over waits. After every `restart_every` steps, a new
  // daemon takes over that knows only what was stored; 0: never.
  void Deliver(int restart_every = 0) {
    std::unique_ptr<WandbDelivery> delivery;
    for (int step = 0; step < 3000 && !stored_delivery_.complete; ++step) {
      if (delivery == nullptr || (restart_every > 0 && step % restart_every == 0)) {
        delivery = std::make_unique<WandbDelivery>(stored_.run(), stored_delivery_,
                                                   DeliveryParts{.transport = transport_.get(),
                                                                 .breakers = &breakers_,
                                                                 .credentials = &credentials_},
                                                   options_);
      }
      const StepResult result = delivery->Step(stored_.reader(), now_, /*draining=*/true);
      if (result.changed) stored_delivery_ = result.delivery;
      for (const model::DeadLetter& letter : result.dead_letters) letters_.push_back(letter);
      if (!result.delivery.last_error.empty()) errors_seen_.push_back(result.delivery.last_error);
      if (result.wait < absl::InfiniteDuration()) now_ += result.wait;
      waited_ += result.wait < absl::InfiniteDuration() ? result.wait : absl::ZeroDuration();
    }
    EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  }

  // Checks that every row except those of `refused` has its values in its line.
  void ExpectAllRows(uint64_t rows, const std::vector<uint64_t>& refused = {}) {
    EXPECT_THAT(server_.errors(), IsEmpty());
    const FakeWandb::Run run = server_.run("r");
    ASSERT_EQ(run.history.size(), rows);
    for (uint64_t i = 0; i < rows; ++i) {
      const nlohmann::json row = ParseExtendedJson(run.history[i]);
      EXPECT_EQ(row["_step"], i);
      const bool bare = std::find(refused.begin(), refused.end(), i) != refused.end();
      EXPECT_EQ(row.contains("loss"), !bare) << i;
    }
    EXPECT_EQ(stored_delivery_.delivered_rows, rows);
    EXPECT_EQ(stored_delivery_.refused_rows, refused.size());
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(ParseExtendedJson(run.summary)["_step"], rows - 1);
  }

  WandbDelivery::Options options_{.files = false};
  std::vector<model::DeadLetter> letters_;
  std::vector<std::string> errors_seen_;
  absl::Time now_ = absl::FromUnixSeconds(1767322800);
  CircuitBreakers breakers_{{}, [this] { return now_; }};
  absl::Duration waited_ = absl::ZeroDuration();
};

TEST_F(WandbDeliveryFaultsTest, DeliversARunOverOneConnection) {
  stored_.Append(1000);
  stored_.Close(model::RunState::kFinished, 0);
  options_.max_post_bytes = 10000;
  Deliver();
  ExpectAllRows(1000);
  std::set<int> ports;
  for (const FakeWandb::Request& request : server_.requests()) ports.insert(request.port);
  EXPECT_EQ(ports.size(), 1u);
  EXPECT_GT(server_.requests().size(), 5u);
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(WandbDeliveryFaultsTest, GzipsWhereTheServerCan) {
  server_.Enable("FILESTREAM_GZIP");
  stored_.Append(1000);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(1000);
  EXPECT_TRUE(server_.requests().back().gzip);
}

TEST_F(WandbDeliveryFaultsTest, SurvivesTemporaryServerErrors) {
  server_.Inject({.on = Fault::On::kGraphql, .times = 4, .code = 503});
  server_.Inject({.on = Fault::On::kFileStream, .times = 20, .code = 500});
  stored_.Append(100);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(100);
  EXPECT_GT(waited_, absl::Minutes(10));
}

TEST_F(WandbDeliveryFaultsTest, HonoursRetryAfter) {
  server_.Inject({.code = 429, .retry_after = "33"});
  stored_.Append(10);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(10);
  EXPECT_EQ(waited_, absl::Seconds(33));
}

TEST_F(WandbDeliveryFaultsTest, LostAnswerRepeatsSameLines) {
  server_.Inject({.on = Fault::On::kGraphql, .times = 3, .code = 0, .act = true});
  server_.Inject({.on = Fault::On::kFileStream, .times = 3, .code = 0, .act = true});
  server_.Inject({.on = Fault::On::kFileStream, .times = 2, .code = 502, .act = true});
  stored_.Append(50);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(50);
  EXPECT_EQ(server_.run("r").repeated_lines, 5u * 50);
}

TEST_F(WandbDeliveryFaultsTest, RetriesAfterTimedOutAnswer) {
  options_.stream_timeout = absl::Milliseconds(50);
  server_.Inject({.code = 200, .act = true, .delay = absl::Seconds(1)});
  stored_.Append(5);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(5);
  // On a busy machine, a later answer may take too long as well.
  EXPECT_GE(server_.run("r").repeated_lines, 5u);
  EXPECT_EQ(server_.run("r").repeated_lines % 5, 0u);
}

TEST_F(WandbDeliveryFaultsTest, RestartAtAnyStepLosesNothing) {
  for (int i = 0; i < 10; ++i) stored_.Append(37, i % 3 == 0 ? "text" : "", i % 2 == 0 ? 1 : 2);
  stored_.Close(model::RunState::kFinished, 0);
  options_.max_post_bytes = 4000;
  server_.Inject({.on = Fault::On::kFileStream, .times = 5, .code = 0, .act = true});
  // Features, upsert, scan, cut and post: one post needs at least five steps.
  Deliver(/*restart_every=*/7);
  ExpectAllRows(370);
}

TEST_F(WandbDeliveryFaultsTest, BisectionIsolatesBadRow) {
  server_.RefuseLines([](const std::string& line) { return absl::StrContains(line, "poison"); });
  stored_.Append(500);
  stored_.Append(500, "poison");
  stored_.Append(1, "fine");
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(1001, {500});
  ASSERT_EQ(letters_.size(), 1u);
  EXPECT_EQ(letters_[0].row, 500u);
  EXPECT_THAT(letters_[0].answer, HasSubstr("HTTP 400"));
  EXPECT_THAT(letters_[0].content, HasSubstr("\"note\":\"poison\""));
  EXPECT_LT(server_.requests().size(), 40u);
}

TEST_F(WandbDeliveryFaultsTest, RefusedSummaryDoesNotBlockRows) {
  server_.RefuseLines([](const std::string& line) { return absl::StrContains(line, "poison"); });
  stored_.Apply(model::Item::Kind::kSummary, {{"bad", "poison"}});
  stored_.Append(20);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  EXPECT_EQ(server_.run("r").history.size(), 20u);
  EXPECT_TRUE(server_.run("r").complete);
  EXPECT_EQ(server_.run("r").summary, "");
  EXPECT_EQ(stored_delivery_.refused_rows, 0u);
  ASSERT_EQ(letters_.size(), 1u);
  EXPECT_THAT(letters_[0].answer, HasSubstr("summary: HTTP 400"));
}

TEST_F(WandbDeliveryFaultsTest, EveryBadRowBecomesDeadLetter) {
  server_.RefuseLines([](const std::string& line) {
    return absl::StrContains(line, "\"_step\":3") && absl::StrContains(line, "\"note\"");
  });
  for (int i = 0; i < 40; ++i) stored_.Append(1, "n");
  stored_.Append(1, "last");
  stored_.Close(model::RunState::kFinished, 0);
  Deliver(/*restart_every=*/50);
  ExpectAllRows(41, {3, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39});
  EXPECT_EQ(letters_.size(), 11u);
}

TEST_F(WandbDeliveryFaultsTest, ShrinksPostsToServerLimit) {
  server_.RefuseBodiesAbove(100000);
  stored_.Append(5000);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(5000);
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(WandbDeliveryFaultsTest, OversizedRowBecomesDeadLetter) {
  server_.RefuseBodiesAbove(100000);
  stored_.Append(3);
  stored_.Append(1, std::string(200000, 'x'));
  stored_.Append(3, "small");
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(7, {3});
  ASSERT_EQ(letters_.size(), 1u);
  EXPECT_LE(letters_[0].content.size(), 64u << 10);
}

// The summary has the row's text, so the post contains it twice. Row and summary are small enough
// by themselves.
TEST_F(WandbDeliveryFaultsTest, LargeSummaryIsPostedAlone) {
  server_.RefuseBodiesAbove(100000);
  stored_.Append(1, std::string(70000, 'x'));
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(1);
  EXPECT_THAT(letters_, IsEmpty());
  EXPECT_EQ(ParseExtendedJson(server_.run("r").summary)["note"], std::string(70000, 'x'));
}

// The last text of a metric is its summary, so one row can make the whole summary too large.
TEST_F(WandbDeliveryFaultsTest, OversizedSummaryDropsLongTexts) {
  options_.max_line_bytes = 100000;
  stored_.Append(2, std::string(200000, 'x'));
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(2, {0});
  const nlohmann::json summary = ParseExtendedJson(server_.run("r").summary);
  EXPECT_EQ(summary["loss"], 1.5);
  EXPECT_EQ(summary["ranklog/rows_lost"], 1);
  EXPECT_TRUE(summary["note"].is_null());
}

TEST_F(WandbDeliveryFaultsTest, LineAboveLimitIsNotSent) {
  options_.max_line_bytes = 1000;
  stored_.Append(2, std::string(2000, 'x'));
  stored_.Append(2, "small");
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(4, {0});
  EXPECT_THAT(letters_[0].answer, HasSubstr("the limit is 1000"));
  EXPECT_EQ(ParseExtendedJson(server_.run("r").summary)["ranklog/rows_lost"], 1)
      << "in the summary that came with the last row and the run's end";
}

TEST_F(WandbDeliveryFaultsTest, TotalRefusalLosesNoRows) {
  bool refuse = true;
  server_.RefuseLines([&refuse](const std::string&) { return refuse; });
  stored_.Append(20);
  stored_.Close(model::RunState::kFinished, 0);
  WandbDelivery delivery(
      stored_.run(), stored_delivery_,
      DeliveryParts{
          .transport = transport_.get(), .breakers = &breakers_, .credentials = &credentials_},
      options_);
  for (int i = 0; i < 50; ++i) {
    const StepResult result = delivery.Step(stored_.reader(), now_, true);
    EXPECT_THAT(result.dead_letters, IsEmpty());
    if (result.changed) stored_delivery_ = result.delivery;
    now_ += result.wait;
  }
  EXPECT_THAT(stored_delivery_.last_error, HasSubstr("HTTP 400"));
  refuse = false;
  Deliver();
  ExpectAllRows(20);
}

class RefusedConfigTest : public WandbDeliveryFaultsTest,
                          public ::testing::WithParamInterface<int> {};

TEST_P(RefusedConfigTest, DoesNotHoldUpTheRows) {
  server_.RefuseConfigs(
      [](const std::string& config) { return absl::StrContains(config, "poison"); }, GetParam());
  stored_.Apply(model::Item::Kind::kConfig, {{"bad", "poison"}});
  stored_.Append(5);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ExpectAllRows(5);
  ASSERT_EQ(letters_.size(), 1u);
  EXPECT_THAT(letters_[0].answer, HasSubstr(absl::StrCat("config: HTTP ", GetParam())));
  EXPECT_THAT(letters_[0].content, HasSubstr("poison"));
}

INSTANTIATE_TEST_SUITE_P(ByCode, RefusedConfigTest, ::testing::Values(400, 413, 200));

TEST_F(WandbDeliveryFaultsTest, AppendsAfterExistingLines) {
  server_.AddExistingRun("r", 250);
  stored_.Append(5);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver(/*restart_every=*/5);
  ExpectAllRows(5);
}

TEST_F(WandbDeliveryFaultsTest, WrongKeyLosesNoRows) {
  server_.RequireKey(std::string(40, 'z'));
  stored_.Append(5);
  stored_.Close(model::RunState::kFinished, 0);
  WandbDelivery delivery(
      stored_.run(), stored_delivery_,
      DeliveryParts{
          .transport = transport_.get(), .breakers = &breakers_, .credentials = &credentials_},
      options_);
  const StepResult result = delivery.Step(stored_.reader(), now_, true);
  EXPECT_THAT(result.delivery.last_error, HasSubstr("HTTP 401"));
  ASSERT_OK(credentials_.Set(JobOf("p", "r"), testing::WandbAccount(server_.url()),
                             {.secret = std::string(40, 'z')}));
  Deliver();
  ExpectAllRows(5);
}

}  // namespace
}  // namespace ranklog::deliver::wandb
