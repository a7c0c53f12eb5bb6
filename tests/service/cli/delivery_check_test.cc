#include "service/cli/doctor/delivery_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A run of 5 rows that has ended.
query::RunReport Ended(const std::string& kind, uint64_t pending, const std::string& error) {
  query::RunReport report;
  report.run.state = model::RunState::kFinished;
  report.run.rows = 5;
  query::DestinationReport destination;
  destination.kind = kind;
  destination.delivered_rows = 5 - pending;
  destination.pending_rows = pending;
  destination.complete = pending == 0;
  destination.last_error = error;
  report.destinations = {destination};
  return report;
}

TEST(DeliveryCheckTest, LocalRunsNeedNoDelivery) {
  EXPECT_THAT(CheckDeliveries(Globals(), {Ended("local", 0, "")}, /*daemon_runs=*/false),
              IsEmpty());
}

TEST(DeliveryCheckTest, DeliveredRunHidesLastError) {
  const auto findings =
      CheckDeliveries(Globals(), {Ended("wandb", 0, "HTTP 503")}, /*daemon_runs=*/false);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].advice, "");
  EXPECT_EQ(findings[0].text, "wandb, 1 run, 0 waiting, 0 rows to deliver");
}

TEST(DeliveryCheckTest, PendingRowsNeedADaemon) {
  const std::vector<query::RunReport> runs = {Ended("wandb", 2, ""), Ended("wandb", 0, "")};
  EXPECT_EQ(CheckDeliveries(Globals(), runs, /*daemon_runs=*/true)[0].advice, "");
  const auto findings = CheckDeliveries(Globals(), runs, /*daemon_runs=*/false);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].advice, HasSubstr("start ranklogd"));
  EXPECT_EQ(findings[0].text, "wandb, 2 runs, 1 waiting, 2 rows to deliver");
  EXPECT_EQ(findings[0].data["pending_rows"], 2);
}

TEST(DeliveryCheckTest, CommandNamesOnlyRunWithRefusedRows) {
  std::vector<query::RunReport> runs = {Ended("wandb", 0, ""), Ended("wandb", 0, "")};
  runs[0].run.run_id = "a";
  runs[1].run.run_id = "b";
  runs[1].destinations[0].refused_rows = 2;
  EXPECT_THAT(CheckDeliveries(Globals(), runs, true)[0].text, HasSubstr("`ranklog dead b`"));
  runs[0].destinations[0].refused_rows = 1;
  EXPECT_THAT(CheckDeliveries(Globals(), runs, true)[0].text, HasSubstr("`ranklog dead RUN`"));
}

TEST(DeliveryCheckTest, LastTrackerErrorIsShown) {
  const auto findings =
      CheckDeliveries(Globals(), {Ended("wandb", 2, "no API key")}, /*daemon_runs=*/true);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].advice, HasSubstr("no API key"));
}

TEST(DeliveryCheckTest, ReasonsAreGroupedByRun) {
  std::vector<query::RunReport> runs;
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    runs.push_back(Ended("wandb", 2, "no API key"));
    runs.back().run.run_id = id;
  }
  runs.push_back(Ended("wandb", 2, "HTTP 403"));
  runs.back().run.run_id = "f";
  runs.push_back(Ended("wandb", 0, "over"));
  const auto findings = CheckDeliveries(Globals(), runs, /*daemon_runs=*/true);
  EXPECT_EQ(findings[0].advice,
            "not delivered: no API key (run a, b, c and 2 more); HTTP 403 (run f)");
  EXPECT_THAT(findings[0].data["reasons"], SizeIs(2));
}

TEST(DeliveryCheckTest, UndeliveredRunEndNeedsSync) {
  query::RunReport report = Ended("wandb", 0, "");
  report.destinations[0].complete = false;
  report.destinations[0].refused_rows = 1;
  const auto findings = CheckDeliveries(Globals(), {report}, /*daemon_runs=*/false);
  EXPECT_THAT(findings[0].advice, HasSubstr("ranklog sync"));
  EXPECT_THAT(findings[0].text, AllOf(HasSubstr("1 row refused"), HasSubstr("ranklog dead")));
}

}  // namespace
}  // namespace ranklog::cli
