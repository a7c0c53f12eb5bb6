#include "service/deliver/tracker/local_delivery.h"

#include <gtest/gtest.h>

#include "tests/service/deliver/wandb/stored_run.h"

namespace ranklog::deliver {
namespace {

TEST(LocalDeliveryTest, CountsRowsAndCompletesWithRun) {
  testing::StoredRun stored("");
  model::Delivery delivery;
  delivery.run = stored.run().id;
  delivery.kind = "local";
  LocalDelivery local(delivery);
  stored.Append(3);
  StepResult result = local.Step(stored.reader(), absl::UnixEpoch(), /*draining=*/false);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.delivery.delivered_rows, 3u);
  EXPECT_FALSE(result.delivery.complete);
  EXPECT_FALSE(local.Step(stored.reader(), absl::UnixEpoch(), false).changed);

  stored.Append(2);
  stored.Close(model::RunState::kCrashed, 0);
  result = local.Step(stored.reader(), absl::UnixEpoch(), false);
  EXPECT_EQ(result.delivery.delivered_rows, 5u);
  EXPECT_TRUE(result.delivery.complete);
  EXPECT_EQ(result.wait, absl::InfiniteDuration());
}

}  // namespace
}  // namespace ranklog::deliver
