#include "service/deliver/wandb/summary_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace ranklog::deliver::wandb {
namespace {

using ::testing::HasSubstr;

// The document of a running run that began at second 100, with this time in its summary.
std::string DocumentAt(double timestamp) {
  model::Run run;
  run.started_us = 100'000'000;
  model::Json summary = model::Json::object();
  summary["_timestamp"] = timestamp;
  return SummaryDocument(run, summary, /*lost_rows=*/0, /*max_bytes=*/1 << 20);
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

}  // namespace
}  // namespace ranklog::deliver::wandb
