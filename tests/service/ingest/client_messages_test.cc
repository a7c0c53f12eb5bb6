// What the client sends, and what the daemon makes of it. Each field of these messages must arrive.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>

#include "client/launch/resolve.h"
#include "client/ring/write_result.h"
#include "service/ingest/ring/convert.h"
#include "tests/support/schema.h"
#include "tests/support/status_matchers.h"

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
    ring_->lost_items = ++rows;
    message_.set_items(rows);
    ring_->lost_values = ++rows;
    message_.set_values(rows);
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
  for (const model::LossCounter& counter : model::kLossCounters) {
    EXPECT_EQ(losses.*counter.count != 0, counter.IsSetByRank()) << counter.name;
  }
}

TEST_F(LossMessagesTest, RingAndMessageAgree) { EXPECT_EQ(ToLosses(*ring_), ToLosses(message_)); }

// A Hello whose settings all differ from their defaults.
v1::Hello FullHello() {
  Settings settings;
  settings.entity = "team";
  settings.name = "name";
  settings.group = "group";
  settings.job_type = "train";
  settings.notes = "notes";
  settings.tags = {"a", "b"};
  settings.log_strategy = LogStrategy::kAll;
  settings.destinations = {"wandb"};
  settings.rank_statistics = {"loss=mean", "max"};
  settings.destination_settings["wandb"]["base_url"] = "https://tracker.test";
  settings.host = "host";
  settings.program = "program";
  settings.resume = "must";
  settings.metadata = false;
  settings.system_metrics = false;
  settings.run_name_pattern = "global_rank_{rank}";
  setenv("RANKLOG_PEER", "node01:20007", 1);
  v1::Hello hello = internal::MakeHello(internal::Resolve(settings));
  unsetenv("RANKLOG_PEER");
  hello.set_protocol(v1::kProtocolVersion);
  hello.mutable_stream()->set_incarnation(1);
  return hello;
}

TEST(SettingMessagesTest, ClientSendsEverySetting) {
  EXPECT_THAT(UnsetFields("RunSettings", FullHello().settings().SerializeAsString()), IsEmpty());
}

TEST(SettingMessagesTest, DaemonKeepsEverySetting) {
  v1::Hello hello = FullHello();
  ASSERT_OK_AND_ASSIGN(const model::Session full, ToSession(hello));
  for (const auto& [field, bytes] :
       WithoutEachField("RunSettings", hello.settings().SerializeAsString())) {
    ASSERT_TRUE(hello.mutable_settings()->ParseFromString(bytes));
    ASSERT_OK_AND_ASSIGN(const model::Session reduced, ToSession(hello));
    EXPECT_NE(reduced.settings, full.settings) << field;
  }
}

}  // namespace
}  // namespace ranklog::ingest
