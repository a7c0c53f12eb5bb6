#include "service/deliver/wandb/documents/summary_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace ranklog::deliver::wandb {
namespace {

using ::testing::HasSubstr;

model::Run RunFrom100() {
  model::Run run;
  run.started_us = 100'000'000;
  return run;
}

// The document of a running run that began at second 100, with this time in its summary.
std::string DocumentAt(double timestamp) {
  const model::Run run = RunFrom100();
  model::Json summary = model::Json::object();
  summary["_timestamp"] = timestamp;
  return SummaryDocument(run, RunClock(run, {}, 0), summary, /*before=*/nullptr, /*lost_rows=*/0,
                         /*max_bytes=*/1 << 20);
}

TEST(SummaryDocumentTest, LiveRunUsesLastRowRuntime) {
  EXPECT_THAT(DocumentAt(101.5), HasSubstr(R"("_runtime":1.5,"_wandb":{"runtime":1})"));
}

TEST(SummaryDocumentTest, InvalidTimeGivesZeroRuntime) {
  for (const double time :
       {99.0, -1e300, 1e300, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(DocumentAt(time), HasSubstr(R"("_wandb":{"runtime":0})")) << time;
  }
}

TEST(SummaryDocumentTest, TellsWhyTheRunEnded) {
  model::Run run = RunFrom100();
  run.state = model::RunState::kCrashed;
  run.ended_us = 160'700'000;
  run.reason = "killed by signal 9";
  const std::string document = SummaryDocument(run, RunClock(run, {}, /*before_us=*/40'000'000),
                                               model::Json::object(), nullptr, 0, 1 << 20);
  EXPECT_THAT(document, HasSubstr(R"("ranklog/end":"killed by signal 9")"));
  EXPECT_THAT(document, HasSubstr(R"("runtime":100)"));
}

TEST(SummaryDocumentTest, KeepsWhatOthersLeft) {
  const model::Run run = RunFrom100();
  EXPECT_THAT(SummaryDocument(run, RunClock(run, {}, 0), {{"loss", 1}}, {{"best", 2}, {"loss", 3}},
                              0, 1 << 20),
              HasSubstr(R"({"loss":1,"best":2,)"));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
