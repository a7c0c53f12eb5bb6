#include "service/daemon/notices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(NoticesTest, AFullDiskIsATroubleUntilCommitsSucceed) {
  const v1::Notice full = StoreNotice(absl::ResourceExhaustedError("disk is full"));
  EXPECT_THAT(full.text(), HasSubstr("disk is full; make room on that disk"));
  EXPECT_EQ(full.severity(), v1::Notice::ERROR);
  EXPECT_FALSE(full.over());
  const v1::Notice over = StoreNotice(absl::OkStatus());
  EXPECT_EQ(over.key(), full.key());
  EXPECT_TRUE(over.over());
}

TEST(NoticesTest, AStepTellsWhereTheRunIsAndWhatItWaitsFor) {
  deliver::StepResult step;
  step.delivery.kind = "wandb";
  step.delivery.last_error = "HTTP 401";
  step.url = "https://wandb.ai/me/gpt/runs/job";
  const auto waiting = DeliveryNotices(step);
  ASSERT_THAT(waiting, SizeIs(2));
  EXPECT_EQ(waiting[0].key(), "url");
  EXPECT_EQ(waiting[0].text(), step.url);
  EXPECT_EQ(waiting[1].text(), "rows wait for wandb: HTTP 401");
  step.delivery.last_error.clear();
  EXPECT_TRUE(DeliveryNotices(step)[1].over());
}

TEST(NoticesTest, WhatIsSetApartIsTold) {
  deliver::StepResult step;
  step.delivery.kind = "wandb";
  step.delivery.refused_rows = 2;
  step.dead_letters.resize(1);
  step.dead_letters[0].answer = "HTTP 400: too long";
  const auto notices = DeliveryNotices(step);
  ASSERT_THAT(notices, SizeIs(2));
  EXPECT_EQ(notices[1].key(), "wandb.refused");
  EXPECT_THAT(notices[1].text(), HasSubstr("HTTP 400: too long"));
}

}  // namespace
}  // namespace ranklog::daemon
