// Reads a delivered run back over real HTTP, from a server that keeps it and from servers that lost
// or changed it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/deliver/wandb/cursor.h"
#include "service/deliver/wandb/wandb_destination.h"
#include "tests/service/deliver/wandb/http_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

using ranklog::testing::FakeWandb;
using ranklog::testing::StatusIs;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Fault = FakeWandb::Fault;

class ReadBackTest : public HttpDeliveryTest {
 protected:
  ReadBackTest() {
    options_.timeout = absl::Seconds(10);
    options_.now = [this] { return now_; };
    options_.sleep = [this](absl::Duration wait) { now_ += wait; };
    options_.progress = [this](uint64_t done, uint64_t total) {
      EXPECT_LE(done, total);
      ++pages_;
    };
  }

  // Delivers all that is stored, and the end of the run if it has ended.
  void Deliver() {
    absl::Time now = absl::UnixEpoch();
    CircuitBreakers breakers({}, [&now] { return now; });
    WandbDelivery delivery(
        stored_.run(), stored_delivery_,
        DeliveryParts{
            .transport = transport_.get(), .breakers = &breakers, .credentials = &credentials_},
        {});
    for (int i = 0; i < 1000; ++i) {
      const StepResult result = delivery.Step(stored_.reader(), now, /*draining=*/true);
      if (result.changed) stored_delivery_ = result.delivery;
      for (model::DeadLetter letter : result.dead_letters) {
        stored_.Write([&](storage::Store& store) { EXPECT_OK(store.AddDeadLetter(letter)); });
      }
      if (result.wait > absl::ZeroDuration() && !result.changed) break;
      if (result.wait < absl::InfiniteDuration()) now += result.wait;
    }
    EXPECT_EQ(stored_delivery_.delivered_rows, stored_.run().rows) << stored_delivery_.last_error;
  }
  void DeliverToTheEnd(uint64_t rows) {
    stored_.Append(rows);
    stored_.Close(model::RunState::kFinished, 0);
    Deliver();
  }

  absl::StatusOr<ReadBackReport> TryRead() {
    return Wandb().ReadBack(stored_.reader(), stored_.run(), stored_delivery_, *transport_,
                            {.user = "", .secret = key_}, options_);
  }
  ReadBackReport Read() {
    const absl::StatusOr<ReadBackReport> report = TryRead();
    EXPECT_OK(report);
    return report.value_or(ReadBackReport());
  }
  void Tamper(const std::function<void(std::vector<std::string>&)>& change) {
    server_.Tamper("r", [&](FakeWandb::Run& run) { change(run.history); });
  }

  absl::Time now_ = absl::UnixEpoch();
  ReadBackOptions options_;
  int pages_ = 0;
};

TEST_F(ReadBackTest, FindsAllDeliveredRows) {
  stored_.Append(10, "a \"text\" \\ with NaN, Infinity and \xe2\x82\xac\n");
  stored_.Append(5, "", /*shape=*/2);
  DeliverToTheEnd(2500);
  const ReadBackReport report = Read();
  EXPECT_TRUE(report.ok(/*ended=*/true));
  EXPECT_EQ(report.sent, 2515u);
  EXPECT_EQ(report.diff.matching, 2515u);
  EXPECT_EQ(report.lines, 2515);
  EXPECT_EQ(report.state, "finished");
  EXPECT_EQ(pages_, 3);
}

TEST_F(ReadBackTest, ComparesConfigAndSummaryAfterEnd) {
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}, {"opt", {{"betas", {0.9, 0.95}}}}});
  stored_.Apply(model::Item::Kind::kSummary, {{"best", 0.25}, {"note", "so far"}});
  model::MetricDefinition x;
  x.name = "x";
  x.summary = {"min", "max"};
  stored_.Define(x);
  stored_.Append(5, "", /*shape=*/2);
  Deliver();
  EXPECT_FALSE(Read().config.compared) << "what is set meanwhile may be under way";
  stored_.Append(5);
  Deliver();
  x.summary = {"max", "min", "last"};
  stored_.Define(x);  // after the last row
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  const ReadBackReport report = Read();
  EXPECT_TRUE(report.ok(/*ended=*/true));
  EXPECT_TRUE(report.config.compared);
  EXPECT_GE(report.config.matching, 2u);  // with the rank's identity
  EXPECT_THAT(report.summary.problems, IsEmpty());
  EXPECT_EQ(report.summary.matching, 4u);  // loss, x, best, note

  server_.Tamper("r", [](FakeWandb::Run& run) {
    run.config = absl::StrReplaceAll(run.config, {{"0.95", "0.96"}, {"\"lr\"", "\"rate\""}});
    run.summary = absl::StrReplaceAll(run.summary, {{"0.25", "0.5"}, {"\"max\"", "\"most\""}});
  });
  const ReadBackReport tampered = Read();
  EXPECT_FALSE(tampered.ok(true));
  EXPECT_EQ(tampered.diff.matching, 10u);
  EXPECT_THAT(tampered.config.problems,
              UnorderedElementsAre("\"lr\" is missing", HasSubstr("\"opt\" is {"),
                                   "\"rate\" is 0.1, but was not sent"));
  EXPECT_THAT(tampered.summary.problems,
              UnorderedElementsAre("\"best\" is 0.5, not 0.25", HasSubstr("\"x\" is {")));
}

TEST_F(ReadBackTest, ReportsRefusedConfigAsMissing) {
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}, {"bad", "\x01"}});
  server_.RefuseConfigs([](const std::string& config) { return absl::StrContains(config, "bad"); });
  DeliverToTheEnd(3);
  const ReadBackReport report = Read();
  EXPECT_FALSE(report.ok(true));
  EXPECT_THAT(report.config.problems, Contains("\"lr\" is missing"));
}

TEST_F(ReadBackTest, AcceptsLostRowCountInSummary) {
  server_.RefuseLines(
      [](const std::string& line) { return absl::StrContains(line, "\"loss\":4.5,\"_"); });
  DeliverToTheEnd(10);
  const ReadBackReport report = Read();
  EXPECT_THAT(server_.run("r").summary, HasSubstr("\"ranklog/rows_lost\":1"));
  EXPECT_THAT(report.summary.problems, IsEmpty());
}

TEST_F(ReadBackTest, NamesADroppedRow) {
  DeliverToTheEnd(10);
  Tamper([](std::vector<std::string>& lines) { lines.erase(lines.begin() + 4); });
  const ReadBackReport report = Read();
  EXPECT_FALSE(report.ok(true));
  EXPECT_EQ(report.diff.missing, 1u);
  ASSERT_EQ(report.diff.gaps.size(), 1u);
  EXPECT_EQ(report.diff.gaps[0].first, 4u);
  EXPECT_EQ(report.diff.matching, 9u);
  EXPECT_EQ(report.not_checked, 0u);
}

TEST_F(ReadBackTest, NamesAChangedRow) {
  DeliverToTheEnd(10);
  Tamper([](std::vector<std::string>& lines) {
    lines[4] = absl::StrReplaceAll(lines[4], {{"4.5", "4.75"}});
  });
  const ReadBackReport report = Read();
  EXPECT_FALSE(report.ok(true));
  ASSERT_EQ(report.diff.differences.size(), 1u);
  EXPECT_EQ(report.diff.differences[0].row, 4u);
  EXPECT_EQ(report.diff.differences[0].text, "\"loss\" is 4.75, not 4.5");
}

TEST_F(ReadBackTest, CountsDuplicateDespiteMatchingLineCount) {
  DeliverToTheEnd(10);
  Tamper([](std::vector<std::string>& lines) { lines[7] = lines[6]; });
  const ReadBackReport report = Read();
  EXPECT_FALSE(report.ok(true));
  EXPECT_EQ(report.lines, 10);
  EXPECT_EQ(report.diff.duplicates, 1u);
  EXPECT_EQ(report.diff.missing, 1u);
}

TEST_F(ReadBackTest, UnexpectedLinesAreCounted) {
  DeliverToTheEnd(10);
  Tamper([](std::vector<std::string>& lines) { lines.push_back("{\"_step\":5000}"); });
  const ReadBackReport report = Read();
  EXPECT_FALSE(report.ok(/*ended=*/true));
  EXPECT_TRUE(report.ok(/*ended=*/false)) << "it may have been sent since";
  EXPECT_EQ(report.lines, 11);
}

TEST_F(ReadBackTest, ReportsRefusedSummaryAsMissing) {
  server_.RefuseLines([](const std::string& line) { return absl::StrContains(line, "_wandb"); });
  DeliverToTheEnd(3);
  const ReadBackReport report = Read();
  EXPECT_FALSE(report.ok(true));
  EXPECT_EQ(report.diff.matching, 3u);
  EXPECT_THAT(report.summary.problems, Contains("\"loss\" is missing"));
}

TEST_F(ReadBackTest, RefusedRowMatchesBareLine) {
  server_.RefuseLines([](const std::string& line) {
    return absl::StrContains(line, "bad") && !absl::StrContains(line, "_wandb");  // no summary
  });
  stored_.Append(5);
  stored_.Append(3, "bad");
  DeliverToTheEnd(2);
  ASSERT_EQ(stored_delivery_.refused_rows, 1u);
  const ReadBackReport report = Read();
  EXPECT_TRUE(report.ok(true));
  EXPECT_EQ(report.diff.bare, 1u);
  EXPECT_EQ(report.diff.matching, 9u);
}

TEST_F(ReadBackTest, ArchivedLinesAreCountedNotChecked) {
  DeliverToTheEnd(1500);
  server_.Tamper("r", [](FakeWandb::Run& run) { run.archived_lines = 1200; });
  const ReadBackReport report = Read();
  EXPECT_TRUE(report.ok(true));
  EXPECT_EQ(report.not_checked, 1200u);
  EXPECT_EQ(report.diff.matching, 300u);
  Tamper([](std::vector<std::string>& lines) { lines.erase(lines.begin() + 10); });
  EXPECT_FALSE(Read().ok(true)) << "one of those is not even counted";
}

TEST_F(ReadBackTest, ExistingLinesCountAsBase) {
  server_.AddExistingRun("r", 250);
  DeliverToTheEnd(5);
  const ReadBackReport report = Read();
  EXPECT_TRUE(report.ok(true));
  EXPECT_EQ(report.base_lines, 250);
  EXPECT_EQ(report.lines, 255);
}

// Another store has delivered the run up to step 9.
TEST_F(ReadBackTest, ReplaysAreNotExpectedThere) {
  server_.Tamper("r", [](FakeWandb::Run& run) {
    for (int step = 0; step < 10; ++step) {
      run.history.push_back(absl::StrCat("{\"loss\":8,\"_timestamp\":5,\"_step\":", step, "}"));
    }
  });
  server_.ExpectSeveralStores();
  stored_.Resume();
  options_.page_rows = 4;
  stored_.Append(2);
  stored_.Count();
  stored_.Append(3);  // they go after the server's last step
  stored_.GiveSteps(5);
  DeliverToTheEnd(20);
  ASSERT_EQ(stored_delivery_.replayed_rows(), 10u) << "0 and 1, 5 to 12";
  const ReadBackReport report = Read();
  EXPECT_TRUE(report.ok(true));
  EXPECT_EQ(report.sent, 15u);
  EXPECT_EQ(report.diff.matching, 15u);
  EXPECT_EQ(report.base_lines, 10);
  EXPECT_EQ(report.lines, 25);
  Tamper([](std::vector<std::string>& lines) { lines.pop_back(); });
  EXPECT_EQ(Read().diff.missing, 1u);
}

TEST_F(ReadBackTest, RowsBeforeDefinitionLackStepMetric) {
  stored_.Append(3, "", /*shape=*/2);
  Deliver();
  model::MetricDefinition loss;
  loss.name = "loss";
  loss.step_metric = "x";
  stored_.Append(2);
  Deliver();
  stored_.Define(loss);
  DeliverToTheEnd(2);
  ASSERT_THAT(server_.run("r").history.back(), HasSubstr("\"x\":2")) << "the last of x, added";
  EXPECT_TRUE(Read().ok(true));
  Tamper([](std::vector<std::string>& lines) {
    lines.back() = absl::StrReplaceAll(lines.back(), {{"\"x\":2", "\"x\":3"}});
  });
  EXPECT_EQ(Read().diff.differing, 1u);
}

TEST_F(ReadBackTest, ReadsRunningRunUpToCursor) {
  stored_.Append(5);
  Deliver();
  stored_.Append(5);
  const ReadBackReport report = Read();
  EXPECT_TRUE(report.ok(/*ended=*/false));
  EXPECT_EQ(report.sent, 5u);
  EXPECT_EQ(report.state, "running");
}

TEST_F(ReadBackTest, RetriesWhileServerIsBusy) {
  DeliverToTheEnd(5);
  server_.Inject({.on = Fault::On::kGraphql, .times = 2, .code = 503});
  server_.Inject({.on = Fault::On::kGraphql, .times = 1, .code = 0});
  options_.timeout = absl::Minutes(2);
  EXPECT_TRUE(Read().ok(true));
}

TEST_F(ReadBackTest, GivesUpAfterTimeoutWithReason) {
  DeliverToTheEnd(5);
  server_.Inject({.on = Fault::On::kGraphql, .times = 100, .code = 503});
  const absl::StatusOr<ReadBackReport> report = TryRead();
  EXPECT_THAT(report, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("HTTP 503"));
  EXPECT_LE(now_, absl::UnixEpoch() + options_.timeout);
}

TEST_F(ReadBackTest, WrongKeyOrRunFailsImmediately) {
  DeliverToTheEnd(5);
  stored_delivery_.cursor["run_id"] = "other";
  EXPECT_THAT(TryRead(), StatusIs(absl::StatusCode::kNotFound));
  server_.RequireKey(std::string(40, 'z'));
  EXPECT_THAT(TryRead(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(now_, absl::UnixEpoch());
}

}  // namespace
}  // namespace ranklog::deliver::wandb
