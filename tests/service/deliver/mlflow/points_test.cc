#include "service/deliver/mlflow/format/points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ranklog::deliver::mlflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const std::vector<std::vector<std::string>> kShapes = {{}, {"loss", "x[0]"}};

// Row i has step i, time i ms, and the values i and i + 0.5.
model::Batch Rows(uint64_t first, uint64_t rows) {
  model::Batch batch{.first = first, .last = first + rows - 1, .blocks = {}};
  model::Block& block = batch.blocks.emplace_back();
  block.shape = 1;
  for (uint64_t i = first; i < first + rows; ++i) {
    block.offsets.push_back(static_cast<uint32_t>(i - first));
    block.steps.push_back(static_cast<int64_t>(i));
    block.times_us.push_back(static_cast<int64_t>(i) * 1000 + 999);
    block.values.push_back(static_cast<double>(i));
    block.values.push_back(static_cast<double>(i) + 0.5);
  }
  return batch;
}

TEST(PointsTest, PointHasKeyValueTimeAndStep) {
  RowPoints points(/*imported=*/false, /*replays_through=*/-1);
  Slice slice;
  slice.next_row = 7;
  points.Append(Rows(7, 1), kShapes, 8, 1000, &slice);
  EXPECT_EQ(MetricsBody("r", slice.finite),
            R"({"metrics":[{"key":"loss","value":7,"timestamp":7,"step":7},)"
            R"({"key":"x_x005B_0_x005D_","value":7.5,"timestamp":7,"step":7}],"run_id":"r"})");
  EXPECT_THAT(slice.nan, IsEmpty());
  EXPECT_EQ(slice.next_row, 8u);
  EXPECT_EQ(slice.points, 2u);
}

// The server must not stop reading in the middle: no bare word, and the run's id is last.
TEST(PointsTest, NanAndInfinitiesAreStringsAndNanIsApart) {
  model::Batch rows = Rows(0, 1);
  rows.blocks[0].values = {std::numeric_limits<double>::quiet_NaN(),
                           -std::numeric_limits<double>::infinity()};
  RowPoints points(false, -1);
  Slice slice;
  points.Append(rows, kShapes, 1, 1000, &slice);
  EXPECT_EQ(slice.nan, R"({"key":"loss","value":"NaN","timestamp":0,"step":0})");
  EXPECT_EQ(slice.finite,
            R"({"key":"x_x005B_0_x005D_","value":"-Infinity","timestamp":0,"step":0})");
  EXPECT_EQ(StoredValue(-std::numeric_limits<double>::infinity()),
            -std::numeric_limits<double>::max());
}

TEST(PointsTest, SliceEndsInsideARowAndGoesOnThere) {
  RowPoints points(false, -1);
  Slice slice;
  points.Append(Rows(0, 10), kShapes, 10, 3, &slice);
  EXPECT_EQ(slice.points, 3u);
  EXPECT_EQ(slice.next_row, 1u);
  EXPECT_EQ(slice.next_point, 1u);
  Slice rest;
  rest.next_row = slice.next_row;
  rest.next_point = slice.next_point;
  points.Append(Rows(0, 10), kShapes, 10, 1000, &rest);
  EXPECT_EQ(rest.points, 17u);
  EXPECT_EQ(rest.next_row, 10u);
  EXPECT_EQ(rest.finite.find(R"({"key":"x_x005B_0_x005D_","value":1.5)"), 0u);
}

TEST(PointsTest, OtherValuesAreNumbersOrNotSent) {
  model::Batch rows = Rows(0, 1);
  rows.blocks[0].texts = {{0, "big", "9007199254740993", true},
                          {0, "done", "true", true},
                          {0, "image", R"({"_type":"image-file","width":3})", true},
                          {0, "nested", R"({"a":{"b":2},"c":"text"})", true},
                          {0, "note", "text"}};
  RowPoints points(false, -1);
  std::vector<std::pair<std::string, double>> seen;
  points.Visit(rows.blocks[0], 0, kShapes,
               [&](const std::string& name, double value) { seen.emplace_back(name, value); });
  EXPECT_THAT(seen,
              ElementsAre(Pair("loss", 0), Pair("x_x005B_0_x005D_", 0.5),
                          Pair("big", 9007199254740992.0), Pair("done", 1), Pair("nested.a.b", 2)));
  EXPECT_THAT(points.unsent(), ElementsAre("image", "nested", "note"));
}

TEST(PointsTest, StepsOfAJoinedRunAreNotSentAgain) {
  RowPoints points(false, /*replays_through=*/4);
  Slice slice;
  points.Append(Rows(0, 7), kShapes, 7, 1000, &slice);
  EXPECT_EQ(slice.points, 4u);
  EXPECT_EQ(slice.replays, 5u);
  model::Batch counted = Rows(0, 1);
  counted.blocks[0].counted = true;
  EXPECT_EQ(points.StepOf(counted.blocks[0], 0), 5);
}

TEST(PointsTest, SystemMetricsHaveTheServersNames) {
  EXPECT_EQ(SystemPointOf("n1", "gpu.0.powerWatts", 1).name, "system/n1/gpu_0_power_usage_watts");
  EXPECT_EQ(SystemPointOf("n1", "proc.memory.rssMB", 1).name, "system/n1/proc.memory.rssMB");
  const SystemPoint memory = SystemPointOf("", "gpu.1.memoryAllocatedBytes", 5e6);
  EXPECT_EQ(memory.name, "system/gpu_1_memory_usage_megabytes");
  EXPECT_DOUBLE_EQ(memory.value, 5);
  Slice slice;
  AppendSample({.number = 3, .time_us = 5000, .values = {{"cpu", 12.5}}}, "n1", &slice);
  EXPECT_EQ(
      slice.finite,
      R"({"key":"system/n1/cpu_utilization_percentage","value":12.5,"timestamp":5,"step":3})");
}

}  // namespace
}  // namespace ranklog::deliver::mlflow
