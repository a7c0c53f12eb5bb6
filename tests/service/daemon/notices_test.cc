#include "service/daemon/notices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(NoticesTest, ReportsFullDiskUntilCommitsSucceed) {
  const v1::Notice full = StoreNotice(absl::ResourceExhaustedError("disk is full"));
  EXPECT_EQ(full.text(),
            "the daemon cannot store rows (disk is full); they stay in the spools; free space on "
            "that disk; the daemon retries by itself");
  EXPECT_EQ(full.severity(), v1::Notice::ERROR);
  EXPECT_FALSE(full.over());
  const v1::Notice over = StoreNotice(absl::OkStatus());
  EXPECT_EQ(over.key(), full.key());
  EXPECT_TRUE(over.over());
}

// It is said when rank 0 attaches, and other nodes may never come.
TEST(NoticesTest, RanksOfOtherNodesAreNotPromised) {
  model::Session session;
  session.identity.local_world_size = 2;
  session.identity.world_size = 8;
  peer::Peering::State peers;
  peers.listens = "[::]:20000";
  EXPECT_EQ(NodesNotice(session, peers)->text(),
            "statistics are over the 2 ranks of this node, and those of the other 6 whose nodes "
            "have the same peer key: see `ranklog status`");
  session.identity.world_size = 2;
  EXPECT_FALSE(NodesNotice(session, peers).has_value());
}

TEST(NoticesTest, PermanentDirectoryGivesNoNotice) {
  // a file system is permanent unless it is known not to be
  EXPECT_FALSE(StateNotice("/proc").has_value());
  EXPECT_FALSE(StateNotice("/nonexistent").has_value());
}

TEST(NoticesTest, StepReportsUrlAndReason) {
  deliver::StepResult step;
  step.delivery.kind = "wandb";
  step.delivery.last_error = "HTTP 401";
  step.url = "https://wandb.ai/me/gpt/runs/job";
  const auto waiting = DeliveryNotices(step, {});
  ASSERT_THAT(waiting, SizeIs(3));
  EXPECT_EQ(waiting[0].key(), "url");
  EXPECT_EQ(waiting[0].text(), step.url);
  EXPECT_EQ(waiting[1].text(), "rows wait for wandb: HTTP 401");
  // A rank could not decode a message with such bytes.
  step.delivery.last_error = "HTTP 403: f\xFCr";
  EXPECT_EQ(DeliveryNotices(step, {})[1].text(), "rows wait for wandb: HTTP 403: f\xEF\xBF\xBDr");
  step.delivery.last_error.clear();
  EXPECT_TRUE(DeliveryNotices(step, {})[1].over());
}

TEST(NoticesTest, StepReportsARequestedStop) {
  deliver::StepResult step;
  step.delivery.kind = "wandb";
  EXPECT_THAT(DeliveryNotices(step, {}), SizeIs(2));
  step.stop = true;
  const auto notices = DeliveryNotices(step, {});
  ASSERT_THAT(notices, SizeIs(3));
  EXPECT_EQ(notices[0].key(), "stop");
  EXPECT_EQ(notices[0].text(), "the run was asked to stop on its web page");
  EXPECT_EQ(notices[0].severity(), v1::Notice::INFO);
  EXPECT_FALSE(notices[0].over());
}

TEST(NoticesTest, StepReportsDeliveredRows) {
  deliver::StepResult step;
  step.delivery.kind = "wandb";
  step.delivery.delivered_rows = 5;  // refused rows included
  step.delivery.refused_rows = 1;
  step.rows = 9;
  step.live = true;
  EXPECT_EQ(DeliveryNotices(step, {}).back().text(), "4 rows delivered") << "more rows may come";
  step.live = false;
  const v1::Notice going = DeliveryNotices(step, {}).back();
  EXPECT_EQ(going.key(), "delivered");
  EXPECT_EQ(going.severity(), v1::Notice::INFO);
  EXPECT_EQ(going.text(), "4 of 9 rows delivered");
  EXPECT_FALSE(going.over());
  step.delivery.complete = true;
  EXPECT_TRUE(DeliveryNotices(step, {}).back().over());
  step.delivery.kind = "local";
  EXPECT_EQ(DeliveryNotices(step, {}).back().key(), "local") << "it leaves the node for nowhere";
}

TEST(NoticesTest, RowsAreDeliveredOnceEachTrackerHasThem) {
  deliver::StepResult step;
  step.delivery.kind = "offline";
  step.delivery.delivered_rows = 9;
  step.delivery.complete = true;
  step.rows = 9;
  model::Delivery wandb;
  wandb.kind = "wandb";
  const v1::Notice going = DeliveryNotices(step, {wandb}).back();
  EXPECT_EQ(going.text(), "0 of 9 rows delivered");
  EXPECT_FALSE(going.over());
  wandb.delivered_rows = 9;
  wandb.complete = true;
  EXPECT_TRUE(DeliveryNotices(step, {wandb}).back().over());
}

TEST(NoticesTest, SetApartDeliveryIsReported) {
  deliver::StepResult step;
  step.delivery.kind = "wandb";
  step.delivery.refused_rows = 2;
  step.dead_letters.resize(1);
  step.dead_letters[0].answer = "HTTP 400: too long";
  const auto notices = DeliveryNotices(step, {});
  ASSERT_THAT(notices, SizeIs(3));
  EXPECT_EQ(notices[2].key(), "wandb.refused");
  EXPECT_THAT(notices[2].text(), HasSubstr("HTTP 400: too long"));
}

}  // namespace
}  // namespace ranklog::daemon
