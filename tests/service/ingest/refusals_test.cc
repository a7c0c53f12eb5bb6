#include "service/ingest/server/refusals.h"

#include <gtest/gtest.h>

namespace ranklog::ingest {
namespace {

TEST(RefusalsTest, EachKindHasItsCounter) {
  IngestCounters counters;
  const auto counter = [&](const absl::Status& why, bool other_version, bool attached) {
    return &RefusalCounter(counters, why, other_version, attached);
  };
  const absl::Status bad = absl::InvalidArgumentError("bad");
  const absl::Status many = absl::ResourceExhaustedError("too many");
  EXPECT_EQ(counter(bad, /*other_version=*/true, /*attached=*/false), &counters.refused_versions);
  EXPECT_EQ(counter(bad, /*other_version=*/false, /*attached=*/true), &counters.refused_messages);
  EXPECT_EQ(counter(many, /*other_version=*/false, /*attached=*/true), &counters.refused_shapes);
  EXPECT_EQ(counter(many, /*other_version=*/false, /*attached=*/false), &counters.refused_streams);
}

TEST(RefusalsTest, EveryRefusalIsCounted) {
  IngestCounters counters;
  CountRefusal(counters.refused_messages, {}, absl::InvalidArgumentError("bad"));
  CountRefusal(counters.refused_messages, {}, absl::InvalidArgumentError("bad"));
  EXPECT_EQ(counters.refused_messages, 2u);
}

}  // namespace
}  // namespace ranklog::ingest
