// What the client sends, and what the daemon makes of it. Each field of these messages must arrive.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "client/ring/write_result.h"
#include "service/ingest/convert.h"
#include "tests/support/schema.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::internal::kLossReasons;
using ::ranklog::internal::LossReason;
using ::ranklog::testing::UnsetFields;
using ::ranklog::testing::WithoutEachField;
using ::testing::IsEmpty;

class LossMessagesTest : public ::testing::Test {
 protected:
  LossMessagesTest() {
    uint64_t rows = 0;
    for (const LossReason& reason : kLossReasons) {
      ring_.get()->*reason.in_ring = ++rows;
      (message_.*reason.report)(rows);
    }
  }

  const std::unique_ptr<v1::SpoolHeader> ring_ = std::make_unique<v1::SpoolHeader>();
  v1::Losses message_;
};

TEST_F(LossMessagesTest, ClientReportsEveryReason) {
  EXPECT_THAT(UnsetFields("Losses", message_.SerializeAsString()), IsEmpty());
}

TEST_F(LossMessagesTest, DaemonReadsEveryReason) {
  const model::Losses losses = ToLosses(message_);
  for (const auto& [field, bytes] : WithoutEachField("Losses", message_.SerializeAsString())) {
    v1::Losses without;
    ASSERT_TRUE(without.ParseFromString(bytes));
    EXPECT_NE(ToLosses(without), losses) << field;
  }
  for (const model::LossReason& reason : model::kLossReasons) {
    EXPECT_EQ(losses.*reason.rows != 0, reason.IsSetByRank()) << reason.name;
  }
}

TEST_F(LossMessagesTest, RingAndMessageAgree) { EXPECT_EQ(ToLosses(*ring_), ToLosses(message_)); }

}  // namespace
}  // namespace ranklog::ingest
