// A run that several stores feed, one after the other, as when its job moves to another node. Each
// row gets its own line. Config, summary and end are those of the store with the newest rows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/service/deliver/wandb/several_stores.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;
using ranklog::testing::FakeTransport;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using WandbDeliveryMovedTest = SeveralStoresTest;

// Its upsert is the first that it hears of the rows of the other.
TEST_F(WandbDeliveryMovedTest, CopyThatDeliversAtTheSameTimeRepeatsTheLines) {
  NodeStore copy(this, 0, testing::kRunStartUs);
  for (NodeStore* store : {&a_, &copy}) {
    SetLogPrefix(*store, "a");
    store->stored.Append(3);
    store->stored.Close(model::RunState::kFinished, 0);
  }
  const auto has_asked = [&] {
    const std::vector<std::string> said = copy.Said();
    return !said.empty() && absl::StrContains(said.back(), "RunResumeStatus");
  };
  for (int i = 0; i < 20 && !has_asked(); ++i) copy.Step();
  ASSERT_TRUE(has_asked());
  EXPECT_TRUE(a_.Deliver().delivery.complete) << a_.delivery.last_error;
  EXPECT_TRUE(copy.Deliver().delivery.complete) << copy.delivery.last_error;
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 2));
}

TEST_F(WandbDeliveryMovedTest, LeftoverRowsFollowNewerStore) {
  SetLogPrefix(a_, "a");
  a_.stored.Append(2);
  a_.Deliver();
  a_.stored.Append(3);
  ContinueAtB();
  const size_t before = a_.transport.sent().size();
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100, 101, 2, 3, 4));
  ExpectEndOf(a_, "b", 0);
  const std::vector<std::string> said = a_.Said();
  EXPECT_THAT(std::vector<std::string>(said.begin() + static_cast<long>(before), said.end()),
              Each(Not(::testing::AnyOf(HasSubstr("UpsertBucket"), HasSubstr("summary.json")))));
}

// A ring was drained late, after a late request had set the summary back. So the newest time at the
// server is that of its last line, which is ours.
TEST_F(WandbDeliveryMovedTest, OldStoresRowsKeepNewerState) {
  SetLogPrefix(a_, "a");
  a_.stored.Append(2);
  a_.Deliver();
  const std::string summary = server_.RunOf("r").summary;
  a_.stored.Append(1);
  ContinueAtB();
  a_.Restart();
  a_.Deliver();
  server_.RunOf("r").summary = summary;
  a_.stored.Append(1);
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100, 101, 2, 3));
  EXPECT_EQ(server_.RunOf("r").exit_code, 0);
  EXPECT_EQ(json::parse(server_.RunOf("r").config)["from"]["value"], "b");
  EXPECT_TRUE(a_.delivery.complete) << a_.delivery.last_error;
}

TEST_F(WandbDeliveryMovedTest, NewerStoreDecidesTheEnd) {
  SetLogPrefix(a_, "a");
  a_.stored.Append(2);
  a_.Deliver();
  ContinueAtB();
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100, 101));
  ExpectEndOf(a_, "b", 0);
}

TEST_F(WandbDeliveryMovedTest, UndeliveredStoreFollowsNewerStore) {
  SetLogPrefix(a_, "a");
  a_.stored.Append(3);
  a_.stored.Close(model::RunState::kCrashed, 0);
  ContinueAtB();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(100, 101, 0, 1, 2));
  ExpectEndOf(a_, "b", 0);
}

TEST_F(WandbDeliveryMovedTest, NonzeroExitCodeIsKept) {
  a_.stored.Append(3);
  SetLogPrefix(b_, "b");
  b_.stored.Append(2);
  b_.stored.Close(model::RunState::kFailed, 1);
  b_.Deliver();
  a_.stored.Close(model::RunState::kFinished, 0);
  a_.Deliver();
  ExpectEndOf(a_, "b", 1);
}

TEST_F(WandbDeliveryMovedTest, RowsWithLostAnswerKeepPosition) {
  a_.stored.Append(2);
  a_.Deliver();
  a_.stored.Append(3);
  a_.PostAndDie([this](const HttpRequest& post) { Act(post).IgnoreError(); });
  ContinueAtB();
  a_.stored.Append(1);
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 2, 3, 4, 100, 101, 5));
  ExpectEndOf(a_, "b", 0);
}

TEST_F(WandbDeliveryMovedTest, LostRowsFollowNewerStore) {
  a_.stored.Append(2);
  a_.Deliver();
  a_.stored.Append(2);  // as many as the other store writes
  a_.PostAndDie([](const HttpRequest&) {});
  ContinueAtB();
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100, 101, 2, 3));
  ExpectEndOf(a_, "b", 0);
}

TEST_F(WandbDeliveryMovedTest, PartialPostRemainderIsAppended) {
  a_.stored.Append(2);
  a_.Deliver();
  a_.stored.Append(9);
  a_.PostAndDie([this](const HttpRequest& post) {
    json body = json::parse(post.body);
    json& lines = body["files"]["wandb-history.jsonl"]["content"];
    lines.erase(lines.begin() + 6, lines.end());
    HttpRequest part = post;
    part.body = body.dump();
    Act(part).IgnoreError();
  });
  ContinueAtB();
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 8, 9, 10));
  ExpectEndOf(a_, "b", 0);
}

TEST_F(WandbDeliveryMovedTest, WaitsWhileAnotherStoreWrites) {
  a_.stored.Append(2);
  a_.Deliver();
  a_.stored.Append(1);
  SetLogPrefix(b_, "b");
  b_.stored.Append(2);
  b_.Deliver();
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  const StepResult waiting = a_.Deliver();
  EXPECT_EQ(waiting.wait, absl::Seconds(60));
  EXPECT_THAT(
      waiting.delivery.last_error,
      HasSubstr("another store is writing to run r; this store sends its remaining rows (1)"));
  b_.stored.Append(1);
  b_.stored.Close(model::RunState::kFinished, 0);
  b_.Deliver();
  now_ += absl::Seconds(60);
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100, 101, 102, 2));
  ExpectEndOf(a_, "b", 0);
}

TEST_F(WandbDeliveryMovedTest, DoesNotWaitForCrashedRun) {
  a_.options.max_post_bytes = 1;  // one row per post
  a_.stored.Append(3);
  a_.stored.Close(model::RunState::kCrashed, 0);
  b_.stored.Append(2);
  b_.Deliver();
  server_.RunOf("r").silent = true;
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(100, 101, 0, 1, 2));
  EXPECT_FALSE(server_.RunOf("r").complete) << "nobody knows how it ended";
  EXPECT_TRUE(a_.delivery.complete) << a_.delivery.last_error;
}

TEST_F(WandbDeliveryMovedTest, FirstRowTakesOverRun) {
  SetLogPrefix(a_, "a");
  a_.stored.Append(2);
  a_.Deliver();
  SetLogPrefix(b_, "b");
  b_.Deliver();
  EXPECT_EQ(json::parse(server_.RunOf("r").config)["from"]["value"], "a");
  b_.stored.Append(1);
  EXPECT_EQ(b_.Deliver().delivery.last_error, "");
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100));
  EXPECT_EQ(json::parse(server_.RunOf("r").config)["from"]["value"], "b");
}

TEST_F(WandbDeliveryMovedTest, ReturningJobContinuesOnFirstNode) {
  SetLogPrefix(a_, "a");
  a_.stored.Append(2);
  a_.Deliver();
  ContinueAtB();
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  a_.Deliver();
  a_.stored.Attach();
  a_.delivery.complete = false;
  a_.stored.Pass(2 * kAnHourUs);
  a_.stored.Append(2);
  a_.stored.Close(model::RunState::kFailed, 3);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100, 101, 2, 3));
  ExpectEndOf(a_, "a", 3);
}

TEST_F(WandbDeliveryMovedTest, AsksAgainAfterALongPause) {
  a_.stored.Append(2);
  a_.Deliver();
  ContinueAtB();
  a_.stored.Pass(2 * kAnHourUs);
  a_.stored.Append(1);
  now_ += absl::Minutes(3);
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100, 101, 2));
  EXPECT_THAT(server_.errors(), IsEmpty());
}

// The store was restored from a backup. The server has rows that this store does not know it sent.
TEST_F(WandbDeliveryMovedTest, RestoredStoreSendsNoRowTwice) {
  a_.stored.Append(2);
  a_.Deliver();
  const model::Delivery older = a_.delivery;
  a_.stored.Append(4);
  a_.Deliver();
  a_.delivery = older;
  a_.stored.Append(1);
  a_.stored.Close(model::RunState::kFinished, 0);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbDeliveryMovedTest, EmptyStandingAnswerIsRetried) {
  a_.stored.Append(2);
  a_.Deliver();
  a_.stored.Append(1);
  ContinueAtB();
  a_.Restart();
  a_.transport.AnswerNext(FakeTransport::Code(200));  // to the query for the features
  for (const char* answer : {"{}", R"({"errors":[{"message":"what?"}]})",
                             R"({"data":{"project":{"run":{"id":"s"}}}})"}) {
    a_.transport.AnswerNext(FakeTransport::Code(200, answer));
    EXPECT_EQ(a_.Deliver().wait, absl::Seconds(60)) << answer;
    now_ += absl::Seconds(60);
  }
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1, 100, 101, 2));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
