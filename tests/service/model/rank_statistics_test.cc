#include "service/model/rank_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kMeanMinMax = 1 | 2 | 4;
constexpr uint32_t kMaxOnly = 4;

TEST(RankStatisticsTest, DefaultIsMeanMinAndMax) {
  EXPECT_EQ(RankStatistics().Of("loss"), kMeanMinMax);
  EXPECT_EQ(RankStatistics({"max"}).Of("loss"), kMaxOnly);
  EXPECT_EQ(RankStatistics({"none"}).Of("loss"), 0u);
}

TEST(RankStatisticsTest, FirstMatchingRuleCounts) {
  const RankStatistics statistics({}, {"loss=none", "l*=max", "*=none", "lr=mean"});
  EXPECT_EQ(statistics.Of("loss"), 0u);
  EXPECT_EQ(statistics.Of("lr"), kMaxOnly);
  EXPECT_EQ(statistics.Of("other"), 0u);
  EXPECT_EQ(RankStatistics({}, {"lr=none"}).Of("loss"), kMeanMinMax);
  EXPECT_EQ(RankStatistics({"max"}, {"lr=none"}).Of("loss"), kMaxOnly);
}

TEST(RankStatisticsTest, GlobStarMatchesAnyText) {
  const auto matches = [](const std::string& glob, const std::string& metric) {
    return RankStatistics({"none"}, {glob + "=max"}).Of(metric) != 0;
  };
  for (const char* glob : {"perf/io/read", "perf/*", "*", "*read", "perf/*read", "*/*/*", "p*r*d",
                           "**", "perf/io/read*", "*io*"}) {
    EXPECT_TRUE(matches(glob, "perf/io/read")) << glob;
  }
  for (const char* glob : {"perf", "perf/", "read", "perf*write", "*d/*", "perf/io/read?",
                           "perf/io/read/*", "", "Perf/*"}) {
    EXPECT_FALSE(matches(glob, "perf/io/read")) << glob;
  }
  EXPECT_FALSE(matches("ab*ba", "aba")) << "the texts overlap";
  EXPECT_TRUE(matches("a=b", "a=b"));
}

TEST(RankStatisticsTest, AnyIsFalseWithoutStatistics) {
  EXPECT_TRUE(RankStatistics().any());
  EXPECT_FALSE(RankStatistics({"none"}).any());
  EXPECT_FALSE(RankStatistics({}, {"*=none"}).any());
  EXPECT_FALSE(RankStatistics({}, {"*=none", "loss=mean"}).any());
  EXPECT_TRUE(RankStatistics({"none"}, {"loss=mean"}).any());
  EXPECT_TRUE(RankStatistics({}, {"loss=none"}).any());
  RunSettings all;
  all.strategy = LogStrategy::kAll;
  EXPECT_FALSE(RankStatistics::OfRun(all).any());
}

TEST(RankStatisticsTest, MetricOfStatisticStripsPrefix) {
  EXPECT_EQ(MetricOfStatistic("rank_mean/train/loss"), "train/loss");
  EXPECT_EQ(MetricOfStatistic("rank_argmax/rank_max/a"), "rank_max/a");
  for (const char* key : {"loss", "rank_mean", "rank_mean/", "rank_median/loss", "my_rank_min/x"}) {
    EXPECT_EQ(MetricOfStatistic(key), "") << key;
  }
}

TEST(RankStatisticsTest, ErrorsNameTheirRule) {
  EXPECT_THAT(RankStatisticsErrors({"std"}, {"perf/*=max,argmax", "*=none"}), IsEmpty());
  EXPECT_THAT(RankStatisticsErrors({}, {"a=median"}), ElementsAre(HasSubstr("'median'")));
  EXPECT_THAT(RankStatisticsErrors({}, {"a=none,max"}), ElementsAre(HasSubstr("'none'")));
  EXPECT_THAT(RankStatisticsErrors({}, {"mean"}), ElementsAre(HasSubstr("without a glob: 'mean'")));
}

}  // namespace
}  // namespace ranklog::model
