#include "service/query/main_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "service/model/rank_statistics.h"

namespace ranklog::query {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MainMetricsTest, LossesComeFirstOthersKeepOrder) {
  EXPECT_THAT(MainMetrics({"lr", "train/loss", "accuracy", "val/Loss"}, {}, 10),
              ElementsAre("train/loss", "val/Loss", "lr", "accuracy"));
}

TEST(MainMetricsTest, TakesNoMoreThanTheLimit) {
  EXPECT_THAT(MainMetrics({"a", "b", "c", "loss"}, {}, 2), ElementsAre("loss", "a"));
}

TEST(MainMetricsTest, LeavesOutStatisticsOverRanks) {
  for (const absl::string_view name : model::kRankStatistics) {
    EXPECT_TRUE(IsRankStatistic(absl::StrCat("rank_", name, "/loss"))) << name;
  }
  EXPECT_THAT(MainMetrics({"rank_mean/loss", "rank_argmax/loss", "_runtime"}, {}, 4), IsEmpty());
  EXPECT_THAT(MainMetrics({"rank_of_matrix", "rank_loss"}, {}, 4),
              ElementsAre("rank_loss", "rank_of_matrix"))
      << "a metric of the user's may begin like one of them";
}

TEST(MainMetricsTest, LeavesOutHiddenMetrics) {
  aggregate::MetricTable definitions;
  model::MetricDefinition hidden;
  hidden.name = "debug/*";
  hidden.hidden = true;
  definitions.Define(hidden);
  EXPECT_THAT(MainMetrics({"debug/loss", "lr"}, definitions, 4), ElementsAre("lr"));
}

}  // namespace
}  // namespace ranklog::query
