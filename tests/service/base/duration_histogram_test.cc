#include "service/base/duration_histogram.h"

#include <gtest/gtest.h>

namespace ranklog {
namespace {

TEST(DurationHistogramTest, UpperBoundsAreInclusive) {
  DurationHistogram histogram;
  histogram.Add(absl::ZeroDuration());
  histogram.Add(absl::Milliseconds(1));  // the first bound
  histogram.Add(absl::Microseconds(1001));
  histogram.Add(absl::Minutes(1));  // the last bound
  histogram.Add(absl::Minutes(3));
  EXPECT_EQ(histogram.counts.front(), 2u);
  EXPECT_EQ(histogram.counts[1], 1u);
  EXPECT_EQ(histogram.counts[DurationHistogram::kBounds.size() - 1], 1u);
  EXPECT_EQ(histogram.counts.back(), 1u);
  EXPECT_DOUBLE_EQ(histogram.sum_seconds, 240.002001);
}

}  // namespace
}  // namespace ranklog
