#include "service/aggregate/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/aggregate/rows.h"

namespace ranklog::aggregate {
namespace {

using model::Item;
using model::Json;

model::StoredItem Config(int64_t stream, const char* json) {
  model::StoredItem stored;
  stored.stream = stream;
  stored.item.kind = Item::Kind::kConfig;
  stored.item.object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return stored;
}

class RunConfigTest : public ::testing::Test {
 protected:
  RunConfigTest() : streams_{StreamOf(1, 2, true), StreamOf(2, 3, false)} {
    for (model::Stream& stream : streams_) {
      stream.identity.node = "n1";
      stream.identity.world_size = 4;
      stream.identity.local_rank = stream.key.rank - 2;
    }
  }

  std::string Made() { return RunConfig(run_, streams_, updates_).dump(); }

  model::Run run_;
  std::vector<model::Stream> streams_;
  std::vector<model::StoredItem> updates_;
};

TEST_F(RunConfigTest, ConfigHasPrimaryAndStatisticsRanks) {
  EXPECT_EQ(Made(), R"({"rank":2,"local_rank":0,"world_size":4,"node":"n1",)"
                    R"("ranklog":{"statistics_over":{"ranks":[2,3],"of":4,"node":"n1"}}})");
}

TEST_F(RunConfigTest, ResumedJobUsesLastSession) {
  for (model::Stream& stream : streams_) stream.key.rank -= 2;
  streams_.push_back(streams_[0]);
  streams_.back().identity.world_size = 1;
  streams_.back().identity.node = "n2";
  EXPECT_EQ(Made(), R"({"rank":0,"local_rank":0,"world_size":1,"node":"n2",)"
                    R"("ranklog":{"statistics_over":{"ranks":[0],"of":1,"node":"n2"}}})");
}

TEST_F(RunConfigTest, DisabledStatisticsAreOmitted) {
  run_.settings.rank_statistics = {"none"};
  EXPECT_FALSE(RunConfig(run_, streams_, updates_).contains("ranklog"));
  run_.settings.rank_statistics = {};
  run_.settings.strategy = model::LogStrategy::kAll;
  EXPECT_FALSE(RunConfig(run_, streams_, updates_).contains("ranklog"));
}

TEST_F(RunConfigTest, PrimaryValueWinsInAnyOrder) {
  updates_ = {Config(1, R"({"lr":1,"a":1})"), Config(2, R"({"lr":2,"b":2})"),
              Config(1, R"({"lr":3})")};
  const Json config = RunConfig(run_, streams_, updates_);
  EXPECT_EQ(config["lr"], 3);
  updates_.push_back(Config(2, R"({"lr":4})"));
  EXPECT_EQ(RunConfig(run_, streams_, updates_)["lr"], 3);
  EXPECT_EQ(config["b"], 2);
  EXPECT_EQ(config.items().begin().key(), "lr");
}

// Two threads have two rings, which arrive in any order.
TEST_F(RunConfigTest, LaterCallOfABootWins) {
  for (model::Stream& stream : streams_) {
    stream.primary = true;
    stream.identity.boot_id = "boot";
  }
  updates_ = {Config(2, R"({"lr":2,"old":2})"), Config(1, R"({"lr":1,"old":1})")};
  updates_[0].item.called_us = 20;
  updates_[0].item.called_us_of = {{"old", 5}};
  updates_[1].item.called_us = 10;
  const auto lr = [&] { return RunConfig(run_, streams_, updates_)["lr"]; };
  EXPECT_EQ(lr(), 2);
  EXPECT_EQ(RunConfig(run_, streams_, updates_)["old"], 1);
  streams_[0].identity.boot_id = "another";
  EXPECT_EQ(lr(), 1) << "the times of two boots cannot be compared";
  streams_[0].identity.boot_id = "boot";
  updates_[1].item.called_us = 0;
  EXPECT_EQ(lr(), 1) << "unknown";
}

TEST_F(RunConfigTest, UserRankKeyIsKept) {
  updates_ = {Config(1, R"({"rank":16,"ranklog":{"mine":1}})")};
  const Json config = RunConfig(run_, streams_, updates_);
  EXPECT_EQ(config["rank"], 16);
  EXPECT_EQ(config["ranklog"]["mine"], 1);
  EXPECT_TRUE(config["ranklog"].contains("statistics_over"));
}

TEST_F(RunConfigTest, SummaryAndConfigAreKeptApart) {
  updates_ = {Config(1, R"({"lr":1})")};
  EXPECT_TRUE(SummaryValues(streams_, updates_).empty());
}

TEST_F(RunConfigTest, MetadataIsThatOfPrimarysNewestItem) {
  const auto metadata = [this] { return RunMetadata(run_, streams_, updates_).dump(); };
  EXPECT_EQ(metadata(), "{}");
  updates_ = {Config(1, R"({"os":"old","pid":1})"), Config(1, R"({"os":"new"})"),
              Config(2, R"({"os":"other"})"), Config(3, R"({"os":"unknown"})")};
  for (model::StoredItem& update : updates_) update.item.kind = Item::Kind::kMetadata;
  updates_.push_back(Config(1, R"({"lr":1})"));
  EXPECT_EQ(metadata(), R"({"os":"new"})");
  EXPECT_FALSE(RunConfig(run_, streams_, updates_).contains("os"));
  EXPECT_TRUE(SummaryValues(streams_, updates_).empty());
  run_.settings.no_metadata = true;
  EXPECT_EQ(metadata(), "{}");
}

TEST_F(RunConfigTest, AnyRankOfTheNewestAttemptMayBePreempted) {
  EXPECT_FALSE(IsPreempting(streams_, updates_));
  updates_ = {Config(2, "{}")};
  EXPECT_FALSE(IsPreempting(streams_, updates_));
  updates_[0].item.kind = Item::Kind::kPreempting;
  EXPECT_TRUE(IsPreempting(streams_, updates_));
  streams_[0].attempt = 2;
  EXPECT_FALSE(IsPreempting(streams_, updates_));
}

TEST_F(RunConfigTest, SummaryUsesPrimarysLastValues) {
  updates_ = {Config(2, R"({"a":1,"b":1})"), Config(1, R"({"a":2})"), Config(1, R"({"a":3})"),
              Config(2, R"({"a":4,"b":5})")};
  for (size_t i = 0; i < updates_.size(); ++i) {
    updates_[i].item.kind = Item::Kind::kSummary;
    updates_[i].item.before_step = static_cast<int64_t>(10 * i);
  }
  const std::vector<SummaryValue> values = SummaryValues(streams_, updates_);
  ASSERT_EQ(values.size(), 2);
  EXPECT_EQ(values[0].key, "a");
  EXPECT_EQ(values[0].value, 3);
  EXPECT_EQ(values[0].before_step, 20);
  EXPECT_EQ(values[1].key, "b");
  EXPECT_EQ(values[1].value, 5);
  EXPECT_EQ(values[1].before_step, 30);
}

TEST_F(RunConfigTest, WithoutStreamsOnlyUpdatesRemain) {
  streams_.clear();
  updates_ = {Config(1, R"({"lr":1})")};
  EXPECT_EQ(Made(), R"({"lr":1})");
}

}  // namespace
}  // namespace ranklog::aggregate
