#include "service/query/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "service/deliver/http/retry.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::query {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::Keys;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A run with ten rows, made from two streams of rank 0 and one of rank 1.
class RunReportTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Do([&] {
      for (const auto& [rank, incarnation] : {std::pair(1u, 7u), {0u, 7u}, {0u, 8u}}) {
        const model::Stream stream = Attach(rank, incarnation);
        run_ = stream.run;
        streams_.push_back(stream.id);
        EXPECT_OK(store_->DefineShape(stream.id, 1, Keys(1)));
        EXPECT_OK(store_->Append(stream.id, Dense(1, 5, 1, 1)));
      }
      EXPECT_OK(store_->DefineRunShape(run_, 1, Keys(1)));
      EXPECT_OK(store_->AppendRunRows(run_, Dense(0, 10, 1, 1)));
    });
  }

  RunReport Report() {
    auto report = ReportRun(*reader_, reader_->GetRun(run_).value());
    EXPECT_OK(report);
    return report.value_or(RunReport());
  }
  void EndRun(const std::string& last_reason = "") {
    Do([&] {
      for (const int64_t stream : streams_) {
        const bool last = stream == streams_.back();
        EXPECT_OK(
            store_->EndStream(stream, model::StreamState::kCrashed, 0, last ? last_reason : "", 5));
        EXPECT_OK(store_->SetAggregated(stream, {.through = 5, .late = 0}));
      }
      EXPECT_OK(store_->CloseRun(run_, model::RunState::kFinished, 0, "", 6));
    });
  }
  void Put(const std::string& kind, uint64_t delivered, uint64_t refused,
           const std::string& error = "", bool complete = false) {
    model::Delivery delivery;
    delivery.run = run_;
    delivery.kind = kind;
    delivery.delivered_rows = delivered;
    delivery.refused_rows = refused;
    delivery.last_error = error;
    delivery.complete = complete;
    delivery.cursor = model::Json::object();
    Do([&] { EXPECT_OK(store_->PutDelivery(delivery)); });
  }

  int64_t run_ = 0;
  std::vector<int64_t> streams_;
};

TEST_F(RunReportTest, RanksAscendAndSumTheirStreams) {
  Do([&] {
    EXPECT_OK(store_->SetLosses(streams_[1], {.ring_full = 2}));
    EXPECT_OK(store_->SetLosses(streams_[2], {.ring_full = 1, .invalid = 4}));
    EXPECT_OK(store_->SetLosses(streams_[0], {.step_behind = 8}));
  });
  const RunReport report = Report();
  ASSERT_THAT(report.ranks, SizeIs(2));
  EXPECT_EQ(report.ranks[0].rank, 0u);
  EXPECT_EQ(report.ranks[0].rows, 10u);
  EXPECT_EQ(report.ranks[0].losses, (model::Losses{.ring_full = 3, .invalid = 4}));
  EXPECT_EQ(report.ranks[1].rows, 5u);
  EXPECT_EQ(report.losses, (model::Losses{.ring_full = 3, .invalid = 4, .step_behind = 8}));
  EXPECT_EQ(LossesText(report.losses), "ring_full 3, invalid 4, step_behind 8");
  EXPECT_EQ(LossesText({}), "");
}

TEST_F(RunReportTest, CountsOfDestinationAddUpToRows) {
  Put("wandb", /*delivered=*/7, /*refused=*/2);
  const RunReport report = Report();
  ASSERT_THAT(report.destinations, SizeIs(2));
  const DestinationReport& local = report.destinations[0];
  EXPECT_EQ(local.kind, kLocal) << "its delivery has not begun";
  EXPECT_EQ(local.delivered_rows, 10u) << "local is the store";
  EXPECT_EQ(local.pending_rows, 0u);
  const DestinationReport& wandb = report.destinations[1];
  EXPECT_EQ(wandb.kind, "wandb");
  EXPECT_EQ(wandb.delivered_rows, 5u);
  EXPECT_EQ(wandb.refused_rows, 2u);
  EXPECT_EQ(wandb.replayed_rows, 0u);
  EXPECT_EQ(wandb.pending_rows, 3u);
  EXPECT_EQ(ReplayedText(wandb), "");
}

TEST_F(RunReportTest, CountsFilesToUpload) {
  const auto file = [](const char* path, int bytes) {
    return model::Json{{"path", path}, {"file", path}, {"bytes", bytes}};
  };
  Do([&] {
    EXPECT_OK(testing::AppendItem(*store_, streams_[0],
                                  {.kind = model::Item::Kind::kRunFile, .object = file("a", 50)}));
    EXPECT_OK(testing::AppendItem(
        *store_, streams_[0],
        {.kind = model::Item::Kind::kArtifact,
         .object = {{"entries", model::Json::array({file("b", 1000),
                                                    file("c", 500),
                                                    {{"path", "d"}, {"ref", "s3://d"}}})}}}));
  });
  const DestinationReport before = Report().destinations[0];
  EXPECT_EQ(before.kind, "wandb");
  EXPECT_EQ(UploadsText(before), "3 files, 1.5 KiB");
  EXPECT_EQ(before.pending_file_bytes, 1550u);

  ASSERT_OK_AND_ASSIGN(const auto uploads, reader_->Uploads(run_, 0));
  model::Delivery delivery;
  delivery.run = run_;
  delivery.kind = "wandb";
  delivery.cursor = {{"content", uploads[0].id}, {"content_files", 1}, {"content_bytes", 1200}};
  Do([&] { EXPECT_OK(store_->PutDelivery(delivery)); });
  const DestinationReport sending = Report().destinations[1];
  EXPECT_EQ(sending.kind, "wandb");
  EXPECT_EQ(UploadsText(sending), "1 file, 300 B") << "one is there, and a part of the other";

  delivery.delivered_items = uploads[1].id;
  Do([&] { EXPECT_OK(store_->PutDelivery(delivery)); });
  EXPECT_EQ(UploadsText(Report().destinations[1]), "");
}

TEST_F(RunReportTest, DestinationWithoutDeliveryWaitsForAllRows) {
  const RunReport report = Report();
  ASSERT_THAT(report.destinations, SizeIs(2));
  EXPECT_EQ(report.destinations[0].kind, "wandb");
  EXPECT_EQ(report.destinations[0].pending_rows, 10u);
  EXPECT_TRUE(IsOpen(report, report.destinations[0]));
}

TEST_F(RunReportTest, EndedRunIsOpenUntilItsEndIsDelivered) {
  Put("wandb", 10, 0);
  RunReport report = Report();
  EXPECT_FALSE(IsOpen(report, report.destinations[1])) << "the run has not ended";
  EndRun();
  report = Report();
  EXPECT_TRUE(IsOpen(report, report.destinations[1]));
  Put("wandb", 10, 0, "", /*complete=*/true);
  report = Report();
  EXPECT_FALSE(IsOpen(report, report.destinations[1]));
}

TEST_F(RunReportTest, OnlyErrorWithAdviceAwaitsPerson) {
  Put("wandb", 5, 0, "HTTP 503");
  RunReport report = Report();
  EXPECT_FALSE(AwaitsPerson(report, report.destinations[1]));
  Put("wandb", 5, 0, std::string("no key") + deliver::kToContinue + "set one");
  report = Report();
  EXPECT_TRUE(AwaitsPerson(report, report.destinations[1]));
  Put("wandb", 10, 0, std::string("no key") + deliver::kToContinue + "set one");
  report = Report();
  EXPECT_FALSE(AwaitsPerson(report, report.destinations[1])) << "no row waits";
}

TEST_F(RunReportTest, WaitingTextsGroupRunsByReason) {
  const auto waiting = [](const std::string& run_id, const std::string& error) {
    RunReport report;
    report.run.run_id = run_id;
    report.destinations = {{.kind = "wandb", .pending_rows = 1, .last_error = error}};
    return report;
  };
  const std::vector<RunReport> reports = {waiting("e", "HTTP 503"), waiting("d", "no key"),
                                          waiting("c", "HTTP 503"), waiting("b", "HTTP 503"),
                                          waiting("a", "HTTP 503"), waiting("f", "")};
  EXPECT_THAT(WaitingTexts(reports, "wandb"),
              ElementsAre("HTTP 503 (run e, c, b and 1 more)", "no key (run d)"));
  EXPECT_THAT(WaitingTexts(reports, "local"), IsEmpty());
}

TEST_F(RunReportTest, UnreadSpoolIsNamed) {
  EXPECT_THAT(UnreadTexts(Report()), IsEmpty());
  EndRun("rank 0 ended" + std::string(model::kSpoolUnread));
  EXPECT_THAT(UnreadTexts(Report()),
              ElementsAre("rows may be missing (number unknown): rank 0 ended; its spool could "
                          "not be read (run job)"));
}

TEST_F(RunReportTest, RowsInSpoolsAreNamed) {
  RunReport report = Report();
  EXPECT_EQ(InSpoolsText(report), "");
  report.in_spools = 1;
  EXPECT_EQ(InSpoolsText(report), "1 row of job is only in spools");
  report.in_spools = 5;
  EXPECT_EQ(InSpoolsText(report), "5 rows of job are only in spools");
  EXPECT_EQ(ToJson(report)["in_spools"], 5);
}

TEST_F(RunReportTest, JsonHasItsEndOnlyAfterTheEnd) {
  EXPECT_FALSE(ToJson(Report()).contains("ended"));
  EXPECT_EQ(ToJson(Report())["state"], "running");
  EndRun();
  const model::Json json = ToJson(Report());
  EXPECT_EQ(json["state"], "finished");
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_DOUBLE_EQ(json["ended"].get<double>(), 6e-6);
}

TEST_F(RunReportTest, StoppedRunIsReportedByItsIdInTheStore) {
  ASSERT_OK_AND_ASSIGN(const auto reports, ReportRuns(*reader_, {{run_, "a damaged batch"}}));
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(StoppedText(reports[0]), "run job is stopped: a damaged batch");
  ASSERT_OK_AND_ASSIGN(const auto others, ReportRuns(*reader_, {{run_ + 1, "a damaged batch"}}));
  EXPECT_EQ(others[0].stopped, "");
}

// A stream of a part has rows in time, late ones, and some that are not sent yet.
TEST_F(RunReportTest, CountsWhatJoinedRankZerosNode) {
  model::Run part = reader_->GetRun(run_).value();
  part.local_only = true;
  const auto joined = [&] { return ReportRun(*reader_, part)->joined; };
  EXPECT_FALSE(joined().has_value()) << "no daemon sends it";
  Do([&] { EXPECT_OK(store_->SetJoined(streams_[0], 0, model::Joined::kOpen, 0)); });
  EXPECT_EQ(joined()->waiting(), 15u);
  Do([&] {
    EXPECT_OK(store_->SetJoined(streams_[0], 4, model::Joined::kOpen, 1));
    EXPECT_OK(store_->SetJoined(streams_[1], 3, model::Joined::kLate, 1));
    EXPECT_OK(store_->SetJoined(streams_[2], 5, model::Joined::kWhole, 2));
  });
  EXPECT_EQ(joined()->rows, 15u);
  EXPECT_EQ(joined()->joined, 8u);
  EXPECT_EQ(joined()->late, 6u) << "two of them never came";
  EXPECT_EQ(joined()->waiting(), 1u);
  EXPECT_FALSE(joined()->complete);
}

TEST_F(RunReportTest, CountsTheRanksThatAttached) {
  EXPECT_EQ(Report().heard_ranks, 2u);
  RunReport report = Report();
  report.world_size = 8;
  EXPECT_EQ(HeardText(report), "2 of 8 ranks have attached");
  report.world_size = 2;
  EXPECT_EQ(HeardText(report), "");
}

}  // namespace
}  // namespace ranklog::query
