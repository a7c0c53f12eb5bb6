#include "service/pipeline/delivery/delivery_totals.h"

#include <gtest/gtest.h>

namespace ranklog::pipeline {
namespace {

using Exchange = deliver::StepResult::Exchange;

class DeliveryTotalsTest : public ::testing::Test {
 protected:
  DeliveryTotalsTest() { result_.delivery.kind = "wandb"; }
  void Add() { totals_.Add(result_, absl::Seconds(1), now_, counted_); }
  const DeliveryTotals::Destination& wandb() { return totals_.destinations().at("wandb"); }

  const absl::Time now_ = absl::FromUnixSeconds(1000);
  DeliveryTotals totals_;
  AnsweredRows counted_;
  deliver::StepResult result_;
};

TEST_F(DeliveryTotalsTest, CountsOnlyNewRows) {
  counted_ = {.sent = 2, .refused = 1};  // by an earlier process
  result_.delivery.delivered_rows = 10;
  result_.delivery.refused_rows = 3;
  Add();
  Add();
  EXPECT_EQ(wandb().delivered_rows, 5u);
  EXPECT_EQ(wandb().refused_rows, 2u);
}

TEST_F(DeliveryTotalsTest, RowRefusedBeforeCursorDecreasesNothing) {
  result_.delivery.delivered_rows = 5;
  Add();
  result_.delivery.refused_rows = 1;
  Add();
  EXPECT_EQ(wandb().delivered_rows, 5u);
  result_.delivery.delivered_rows = 6;
  Add();
  EXPECT_EQ(wandb().delivered_rows, 5u);
  EXPECT_EQ(wandb().refused_rows, 1u);
}

TEST_F(DeliveryTotalsTest, ErrorStaysAfterLaterSuccess) {
  result_.exchange = Exchange::kAnswered;
  result_.delivery.last_error = "HTTP 500";
  Add();
  EXPECT_EQ(wandb().last_success, absl::InfinitePast());
  result_.delivery.last_error.clear();
  Add();
  EXPECT_EQ(wandb().errors, 1u);
  EXPECT_EQ(wandb().last_error, "HTTP 500");
  EXPECT_EQ(wandb().last_success, now_);
}

TEST_F(DeliveryTotalsTest, StepWithoutExchangeIsNoSuccess) {
  result_.exchange = Exchange::kNone;
  result_.dead_letters.resize(2);
  Add();
  EXPECT_EQ(wandb().last_success, absl::InfinitePast());
  EXPECT_EQ(totals_.dead_letters(), 2u);
}

}  // namespace
}  // namespace ranklog::pipeline
