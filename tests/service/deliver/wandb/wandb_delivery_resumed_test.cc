// A run that is resumed at another store: rows that the tracker already has are not sent again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "service/deliver/wandb/cursor.h"
#include "tests/service/deliver/wandb/several_stores.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;
using ranklog::testing::ParseExtendedJson;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr uint64_t kCheckpoint = 80;

// Store a_ has steps 0 to 99. The job continues at store c_, from an earlier checkpoint.
class WandbDeliveryResumedTest : public SeveralStoresTest {
 protected:
  void DeliverAtA(uint64_t rows = 100) {
    SetLogPrefix(a_, "a");
    a_.stored.Append(rows);
    a_.Deliver();
  }
  void EndAtC() {
    SetLogPrefix(c_, "c");
    c_.stored.Close(model::RunState::kFinished, 0);
    c_.Deliver();
    ExpectEndOf(c_, "c", 0);
  }
  static std::vector<int> StepsUpTo(int last) {
    std::vector<int> steps(static_cast<size_t>(last) + 1);
    std::iota(steps.begin(), steps.end(), 0);
    return steps;
  }

  NodeStore c_{this, kCheckpoint, testing::kRunStartUs + kAnHourUs};
};

TEST_F(WandbDeliveryResumedTest, ReplaysAreNotSent) {
  DeliverAtA();
  c_.stored.Resume();
  c_.stored.Append(71);
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(150)));
  EXPECT_EQ(c_.delivery.delivered_rows, 71u);
  EXPECT_EQ(c_.delivery.refused_rows, 0u);
  EXPECT_EQ(c_.delivery.replayed_rows(), 20u);
  EXPECT_EQ(ParseExtendedJson(server_.RunOf("r").history[100])["loss"], 20.5);
}

// Its own rows begin after the step at which it leaves the other run.
TEST_F(WandbDeliveryResumedTest, ForkBeginsAfterItsStep) {
  a_.stored.ForkFrom("other?_step=9");
  a_.stored.Append(15);
  a_.PostAndDie([](const HttpRequest&) {});
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(10, 11, 12, 13, 14));
  EXPECT_EQ(a_.delivery.replayed_rows(), 10u);
  const json own = json::parse(server_.RunOf("r").config)["_wandb"]["value"];
  EXPECT_EQ(own["branch_point"], json({{"run_id", "other"}, {"step", 9}}));
  // A later start continues it.
  a_.stored.Append(5);
  a_.Restart();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(10, 11, 12, 13, 14, 15, 16, 17, 18, 19));
}

TEST_F(WandbDeliveryResumedTest, RunThatIsThereIsNoFork) {
  DeliverAtA();
  c_.stored.ForkFrom("other?_step=9");
  c_.stored.Resume();
  c_.stored.Append(71);
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(150)));
  EXPECT_EQ(server_.RunOf("r").config.find("branch_point"), std::string::npos);
}

TEST_F(WandbDeliveryResumedTest, ForkOfItselfIsIgnored) {
  a_.stored.ForkFrom("r?_step=9");
  a_.stored.Append(2);
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(0, 1));
  EXPECT_EQ(server_.RunOf("r").config.find("branch_point"), std::string::npos);
}

TEST_F(WandbDeliveryResumedTest, RepeatedRestartsSendSameRows) {
  c_.options.max_post_bytes = 1;  // one row per post
  DeliverAtA();
  c_.stored.Resume();
  c_.stored.Append(25);
  SetLogPrefix(c_, "c");
  c_.stored.Close(model::RunState::kFinished, 0);
  for (int i = 0; i < 100 && !c_.delivery.complete; ++i) {
    uint64_t before = c_.delivery.delivered_rows;
    for (int steps = 0; steps < 100 && c_.delivery.delivered_rows == before; ++steps) c_.Step();
    c_.Restart();
  }
  ExpectEndOf(c_, "c", 0);
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(104)));
}

TEST_F(WandbDeliveryResumedTest, UnansweredPostIsRepeatedUnchanged) {
  DeliverAtA();
  c_.stored.Resume();
  c_.stored.Append(25);
  c_.PostAndDie([this](const HttpRequest& post) { Act(post).IgnoreError(); });
  c_.stored.Append(5);
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(109)));
  EXPECT_EQ(server_.RunOf("r").repeated_lines, 5u);
}

TEST_F(WandbDeliveryResumedTest, RestoredStoreSendsNoRowTwice) {
  DeliverAtA();
  c_.stored.Resume();
  c_.stored.Append(10);
  c_.Deliver();
  const model::Delivery older = c_.delivery;
  c_.stored.Append(20);
  c_.Deliver();
  c_.delivery = older;
  c_.stored.Append(5);
  c_.Restart();
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(114)));
}

// The first store's daemon is alive, and has some rows left.
TEST_F(WandbDeliveryResumedTest, RowsArrivingBeforeFirstPostCount) {
  DeliverAtA(60);
  c_.stored.Resume();
  c_.Deliver();
  a_.stored.Append(40);
  a_.Deliver();
  now_ += absl::Seconds(10);
  c_.stored.Append(30);
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(109)));
}

TEST_F(WandbDeliveryResumedTest, FirstStoresLaterRowsAreSent) {
  a_.stored.Resume();  // like a script that always sets it
  DeliverAtA(90);
  a_.stored.Append(10);
  c_.stored.Resume();
  c_.stored.Append(15);
  EndAtC();
  a_.stored.Close(model::RunState::kCrashed, 0);
  a_.Restart();
  a_.Deliver();
  std::vector<int> steps = StepsUpTo(94);
  for (int step = 90; step < 100; ++step) steps.push_back(step);
  EXPECT_THAT(Lines(), ElementsAreArray(steps));
  ExpectEndOf(a_, "c", 0);
}

TEST_F(WandbDeliveryResumedTest, UndeliveredEarlierStoreSendsAllRows) {
  a_.stored.Resume();
  a_.stored.Append(3);
  a_.stored.Close(model::RunState::kCrashed, 0);
  c_.stored.Resume();
  c_.stored.Append(2);
  EndAtC();
  a_.Deliver();
  EXPECT_THAT(Lines(), ElementsAre(80, 81, 0, 1, 2));
  ExpectEndOf(a_, "c", 0);
}

TEST_F(WandbDeliveryResumedTest, StartWithoutResumeSendsAllRows) {
  DeliverAtA();
  c_.stored.Append(25);
  EndAtC();
  std::vector<int> steps = StepsUpTo(99);
  for (int step = 80; step < 105; ++step) steps.push_back(step);
  EXPECT_THAT(Lines(), ElementsAreArray(steps));
}

TEST_F(WandbDeliveryResumedTest, RowsWithoutAStepCountOn) {
  DeliverAtA();
  c_.stored.Resume();
  c_.stored.GiveSteps(0);
  c_.stored.Count();
  c_.stored.Append(3);
  c_.Deliver();
  c_.Restart();
  c_.stored.Append(2);
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(104)));
  EXPECT_EQ(c_.delivery.replayed_rows(), 0u);
  EXPECT_EQ(ParseExtendedJson(server_.RunOf("r").summary)["_step"], 104);
}

TEST_F(WandbDeliveryResumedTest, LeadingRowWithoutStepIsSent) {
  DeliverAtA();
  c_.stored.Resume();
  c_.stored.GiveSteps(0);
  c_.stored.Count();
  c_.stored.Append(1);
  c_.stored.GiveSteps(kCheckpoint);
  c_.stored.Append(25);
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(104)));
  EXPECT_EQ(c_.delivery.replayed_rows(), 21u);
  EXPECT_EQ(ParseExtendedJson(server_.RunOf("r").history[100])["loss"], 0.5);
}

TEST_F(WandbDeliveryResumedTest, SummaryIncludesReplayOnlyMetric) {
  DeliverAtA();
  c_.stored.Resume();
  c_.stored.Append(5, "", /*shape=*/2);
  c_.stored.Append(20);
  EndAtC();
  const json summary = ParseExtendedJson(server_.RunOf("r").summary);
  EXPECT_EQ(summary["x"], 4);
  EXPECT_EQ(summary["_step"], 104);
  EXPECT_FALSE(summary.contains("ranklog/rows_lost"));
}

TEST_F(WandbDeliveryResumedTest, RunOfReplaysOnlyIsComplete) {
  DeliverAtA();
  c_.stored.Resume();
  c_.stored.Append(15);
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAreArray(StepsUpTo(99)));
  EXPECT_EQ(c_.delivery.delivered_rows, 15u);
  EXPECT_EQ(ParseExtendedJson(server_.RunOf("r").summary)["_step"], 99);
}

// Its steps are wide apart, so it has fewer lines than there are replays.
TEST_F(WandbDeliveryResumedTest, ReplaysMayOutnumberLines) {
  DeliverAtA(1);
  a_.stored.GiveSteps(99);
  a_.stored.Append(1);
  a_.Deliver();
  c_.stored.Resume();
  c_.stored.Append(25);
  EndAtC();
  EXPECT_THAT(Lines(), ElementsAre(0, 99, 100, 101, 102, 103, 104));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
