// What is sent, and what follows each answer. tests/interop/clickhouse_faults.py checks with the real
// engine that each row is there once.

#include "service/deliver/clickhouse/clickhouse_delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/deliver/clickhouse/schema.h"
#include "service/deliver/credentials.h"
#include "tests/service/deliver/wandb/stored_run.h"
#include "tests/support/fake_transport.h"

namespace ranklog::deliver::clickhouse {
namespace {

using testing::FakeTransport;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A run with one stream whose rows are not aggregated: only the streams' rows are sent.
class ClickhouseDeliveryTest : public ::testing::Test {
 protected:
  ClickhouseDeliveryTest() {
    options_.boot = "boot";
    options_.boot_clock_us = [this] { return boot_us_; };
    options_.wall_clock = [] { return absl::FromUnixSeconds(1'700'000'000); };
    stored_delivery_.run = stored_.run().id;
    stored_delivery_.kind = kKind;
    stored_.Write([&](storage::Store& store) {
      EXPECT_OK(store.DefineShape(stored_.stream().id, 1, std::vector<std::string>{"loss"}));
    });
    Restart();
  }

  void Restart() {
    breakers_ = std::make_unique<CircuitBreakers>(Backoff::Options{}, [this] { return now_; });
    delivery_ = std::make_unique<ClickhouseDelivery>(
        *FindDestination(kKind), stored_.run(), stored_delivery_,
        DeliveryParts{
            .transport = &transport_, .breakers = breakers_.get(), .credentials = &credentials_},
        options_);
  }
  void Append(uint64_t rows) {
    model::Batch batch;
    batch.first = rows_ + 1;
    batch.last = rows_ += rows;
    model::Block& block = batch.blocks.emplace_back();
    block.shape = 1;
    for (uint64_t seq = batch.first; seq <= batch.last; ++seq) {
      block.offsets.push_back(static_cast<uint32_t>(seq - batch.first));
      block.steps.push_back(static_cast<int64_t>(seq));
      block.times_us.push_back(testing::kRunStartUs);
      block.values.push_back(0.5);
    }
    stored_.Write(
        [&](storage::Store& store) { EXPECT_OK(store.Append(stored_.stream().id, batch)); });
  }
  StepResult Step() {
    StepResult result = delivery_->Step(stored_.reader(), now_, /*draining=*/false);
    if (result.changed) stored_delivery_ = result.delivery;
    return result;
  }
  // Steps until it waits.
  absl::Duration Deliver() {
    for (int steps = 0; steps < 100; ++steps) {
      const StepResult result = Step();
      if (result.wait > absl::ZeroDuration()) return result.wait;
    }
    ADD_FAILURE() << "it never waits";
    return absl::ZeroDuration();
  }
  void Pass(absl::Duration time) {
    now_ += time;
    boot_us_ += absl::ToInt64Microseconds(time);
  }

  // A server with all tables and no rows. It refuses inserts with `refuses_`, or does not answer.
  FakeTransport::Answer Serve(const HttpRequest& request) {
    if (absl::StrContains(request.body, "'points' AS kind")) {
      ++asked_;
      return FakeTransport::Code(200, there_);
    }
    if (absl::StrContains(request.body, "system.tables")) {
      std::string names;
      for (const SchemaObject& object : SchemaObjects()) {
        if (object.name != gone_) absl::StrAppend(&names, object.name, " ");
      }
      return FakeTransport::Code(200, absl::StrCat(version_, "\t", names, "\n"));
    }
    if (!absl::StrContains(request.url, "INSERT%20INTO%20points")) {
      return FakeTransport::Code(200, "");
    }
    inserts_.push_back(request);
    if (refuses_ == 0) return FakeTransport::Code(200, "");
    if (refuses_ < 0) return absl::UnavailableError("the connection broke");
    HttpResponse answer = FakeTransport::Code(500, absl::StrCat("Code: ", refuses_, ". no"));
    answer.headers["x-clickhouse-exception-code"] = absl::StrCat(refuses_);
    return answer;
  }
  // A place of the stored cursor.
  uint64_t Sent() const {
    const Cursor cursor = CursorFrom(stored_delivery_.cursor);
    const auto place = cursor.places.find(stored_.stream().id);
    return place == cursor.places.end() ? 0 : place->second.points;
  }

  testing::StoredRun stored_{"http://127.0.0.1:1"};
  uint64_t rows_ = 0;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(100);
  int64_t boot_us_ = 1'000'000'000;
  ClickhouseDelivery::Options options_;
  CredentialStore credentials_{CredentialStore::Options{}};
  FakeTransport transport_{[this](const HttpRequest& request) { return Serve(request); }};
  std::unique_ptr<CircuitBreakers> breakers_;
  model::Delivery stored_delivery_;
  std::unique_ptr<RunDelivery> delivery_;

  unsigned version_ = kSchemaVersion;
  std::string gone_;
  std::string there_;
  int asked_ = 0;
  int refuses_ = 0;
  std::vector<HttpRequest> inserts_;
};

TEST_F(ClickhouseDeliveryTest, StoresACutBeforeItIsSent) {
  Append(10);
  while (inserts_.empty()) {
    const bool had_cut = CursorFrom(stored_delivery_.cursor).cut.has_value();
    Step();
    EXPECT_EQ(inserts_.empty(), !had_cut);
  }
  Deliver();
  EXPECT_EQ(Sent(), 10u);
  EXPECT_THAT(inserts_, SizeIs(1));
}

TEST_F(ClickhouseDeliveryTest, RepeatsTheSameRowsWithTheSameToken) {
  Append(10);
  refuses_ = -1;
  Pass(Deliver());
  Append(10);  // not in the repetition
  Restart();
  refuses_ = 0;
  Deliver();
  ASSERT_GE(inserts_.size(), 2u);
  EXPECT_EQ(inserts_[0].url, inserts_[1].url);
  EXPECT_EQ(inserts_[0].body, inserts_[1].body);
  EXPECT_THAT(inserts_[0].url, HasSubstr("insert_deduplication_token"));
  Pass(options_.insert_interval);
  Deliver();
  EXPECT_EQ(Sent(), 20u);
  EXPECT_NE(inserts_.back().url, inserts_[0].url);
}

TEST_F(ClickhouseDeliveryTest, AsksWhatIsThereOnceTheTokenMayBeForgotten) {
  Append(10);
  refuses_ = -1;
  Deliver();
  refuses_ = 0;
  Pass(options_.token_life);
  there_ = "points\t1\t10\ntoken\t100\t50\n";  // stream, last row; too many inserts since
  Restart();
  Deliver();
  EXPECT_THAT(inserts_, SizeIs(1)) << "the server has the rows";
  EXPECT_EQ(Sent(), 10u);
}

// The server may have died before the block of the view.
TEST_F(ClickhouseDeliveryTest, RepeatsACutThatIsThereWhileItsTokenIsKnown) {
  Append(10);
  refuses_ = -1;
  Deliver();
  refuses_ = 0;
  Pass(options_.token_life);
  there_ = "points\t1\t10\ntoken\t100\t49\n";  // tokens that are kept, inserts since the cut
  Restart();
  Deliver();
  ASSERT_THAT(inserts_, SizeIs(2));
  EXPECT_EQ(inserts_[0].url, inserts_[1].url);
  EXPECT_EQ(inserts_[0].body, inserts_[1].body);
  EXPECT_EQ(Sent(), 10u);
}

TEST_F(ClickhouseDeliveryTest, RepeatsNoCutOfAnOlderStore) {
  Append(10);
  refuses_ = -1;
  Deliver();
  Append(10);
  refuses_ = 0;
  Pass(options_.token_life);
  there_ = "points\t1\t20\ntoken\t100\t49\n";  // a later cut is there, too
  Restart();
  Deliver();
  EXPECT_THAT(inserts_, SizeIs(1));
  EXPECT_EQ(Sent(), 20u);
}

TEST_F(ClickhouseDeliveryTest, AsksAfterAnotherBoot) {
  Append(10);
  refuses_ = -1;
  Deliver();
  const int before = asked_;
  options_.boot = "another";
  Restart();
  Step();
  Step();
  EXPECT_EQ(asked_, before + 1);
  EXPECT_THAT(inserts_, SizeIs(1));
}

TEST_F(ClickhouseDeliveryTest, WaitsLongerWhileThereAreTooManyParts) {
  Append(10);
  refuses_ = kTooManyParts;
  const absl::Duration wait = Deliver();
  EXPECT_GE(wait, absl::Seconds(2));
  EXPECT_THAT(stored_delivery_.last_error, HasSubstr("Code: 252"));
  absl::Duration longest = wait;
  for (int tries = 0; tries < 12; ++tries) {
    Pass(longest);
    longest = std::max(longest, Deliver());
  }
  EXPECT_GE(longest, absl::Seconds(16)) << "checks of the tables between them do not shorten it";
  refuses_ = 0;
  Pass(longest);
  Deliver();
  EXPECT_THAT(stored_delivery_.last_error, IsEmpty());
}

TEST_F(ClickhouseDeliveryTest, InsertsLessOftenAfterTooManyParts) {
  Append(10);
  refuses_ = kTooManyParts;
  const absl::Duration wait = Deliver();
  refuses_ = 0;
  Pass(wait);
  Deliver();
  EXPECT_THAT(stored_delivery_.last_error, IsEmpty());
  Append(10);
  Pass(options_.insert_interval);
  Deliver();
  EXPECT_EQ(Sent(), 10u) << "the interval is longer now";
  Pass(options_.insert_interval);
  Deliver();
  EXPECT_EQ(Sent(), 20u);
}

TEST_F(ClickhouseDeliveryTest, InsertsAsOftenAsTheSettingTells) {
  model::Run run = stored_.run();
  run.settings.destination_settings[kKind]["insert_interval"] = "5m";
  delivery_ = FindDestination(kKind)->Deliver(
      run, stored_delivery_,
      {.transport = &transport_, .breakers = breakers_.get(), .credentials = &credentials_});
  Append(10);
  Deliver();
  Append(10);
  Pass(absl::Minutes(5) - absl::Seconds(1));
  Deliver();
  EXPECT_EQ(Sent(), 10u);
  Pass(absl::Seconds(1));
  Deliver();
  EXPECT_EQ(Sent(), 20u);
}

TEST(ClickhouseDestinationTest, IgnoresAnUnusableInsertInterval) {
  std::vector<std::string> mistakes;
  const auto of = [&](const std::string& value) {
    return FindDestination(kKind)->SettingsOf({{"CLICKHOUSE_INSERT_INTERVAL", value}}, &mistakes);
  };
  EXPECT_EQ(of("30s")["insert_interval"], "30s");
  for (const char* const value : {"30", "0s", "-1s", "2h", "inf"})
    EXPECT_THAT(of(value), IsEmpty());
  ASSERT_THAT(mistakes, SizeIs(5));
  EXPECT_THAT(mistakes[0], HasSubstr("\"30\" is not a duration from 100ms to 1h"));
}

TEST_F(ClickhouseDeliveryTest, RefusesTablesOfANewerVersion) {
  Append(10);
  version_ = kSchemaVersion + 1;
  Deliver();
  EXPECT_THAT(stored_delivery_.last_error, HasSubstr("have version 2"));
  EXPECT_THAT(inserts_, IsEmpty());
}

TEST_F(ClickhouseDeliveryTest, SendsNoRowsWithoutTheView) {
  Append(10);
  Deliver();
  gone_ = "rank_statistics_mv";
  Append(10);
  Pass(options_.check_interval);
  Deliver();
  EXPECT_THAT(stored_delivery_.last_error, HasSubstr("somebody dropped rank_statistics_mv"));
  EXPECT_THAT(inserts_, SizeIs(1));
}

TEST_F(ClickhouseDeliveryTest, SharesACutAmongStreams) {
  options_.cut_values = 10;
  options_.full_values = 10;
  Restart();
  Append(95);
  Deliver();
  EXPECT_EQ(Sent(), 95u);
  EXPECT_THAT(inserts_, SizeIs(10));
}

TEST(ServerAtTest, TheDatabaseIsASettingOrTheEndOfTheAddress) {
  model::RunSettings settings;
  EXPECT_EQ(ServerAt("http://h:8123", settings).database, "default");
  EXPECT_EQ(ServerAt("http://h:8123/logs", settings).database, "logs");
  EXPECT_EQ(ServerAt("http://h:8123/logs", settings).url, "http://h:8123/");
  settings.destination_settings[kKind]["database"] = "mine";
  EXPECT_EQ(ServerAt("https://h/proxy", settings).database, "mine");
  EXPECT_EQ(ServerAt("https://h/proxy", settings).url, "https://h/proxy/");
}

TEST(DestinationsOfPartTest, OnlySomeGetThePartOfAnotherNodesRun) {
  EXPECT_EQ(DestinationsOfPart({"wandb", "clickhouse"}), std::vector<std::string>{"clickhouse"});
  EXPECT_EQ(DestinationsOfPart({"wandb"}), std::vector<std::string>{"local"});
}

}  // namespace
}  // namespace ranklog::deliver::clickhouse
