#include "service/daemon/metrics/monitor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "service/daemon/metrics/rate.h"
#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

const absl::Time kBegin = absl::FromUnixSeconds(1000);

TEST(RateTest, IsUnknownUntilMinimumTimePasses) {
  Rate rate(absl::Seconds(10), absl::Seconds(2));
  EXPECT_FALSE(rate.PerSecond());
  rate.Add(kBegin, 5);
  rate.Add(kBegin + absl::Seconds(1), 7);
  EXPECT_FALSE(rate.PerSecond());
  rate.Add(kBegin + absl::Seconds(2), 9);
  EXPECT_EQ(rate.PerSecond(), 2);
}

TEST(RateTest, ForgetsSamplesOlderThanWindow) {
  Rate rate(absl::Seconds(10), absl::Seconds(1));
  for (int second = 0; second <= 20; ++second) {
    rate.Add(kBegin + absl::Seconds(second), second < 10 ? 1000 * second : 10000);
  }
  EXPECT_EQ(rate.PerSecond(), 0);
}

TEST(MonitorTest, RowRateCoversLastTenSeconds) {
  const testing::TempDir dir;
  Monitor monitor(dir.path());
  EXPECT_EQ(monitor.view().rows_per_second, 0);
  for (int second = 0; second <= 60; ++second) {
    monitor.Sample(kBegin + absl::Seconds(second), second < 30 ? 0 : 50 * (second - 30));
  }
  EXPECT_EQ(monitor.view().rows_per_second, 50);
}

TEST(MonitorTest, GrowthIncludesStoreAndWal) {
  const testing::TempDir dir;
  Monitor monitor(dir.path());
  std::ofstream(dir.File("ranklog.db")).close();
  std::ofstream(dir.File("ranklog.db-wal")).close();
  for (int second = 0; second <= 120; second += 10) {
    std::filesystem::resize_file(dir.File("ranklog.db"), static_cast<uintmax_t>(second) * 1000);
    std::filesystem::resize_file(dir.File("ranklog.db-wal"), static_cast<uintmax_t>(second) * 24);
    monitor.Sample(kBegin + absl::Seconds(second), 0);
    if (second < 60) {
      EXPECT_FALSE(monitor.view().growth_per_second);
    }
  }
  EXPECT_EQ(monitor.view().growth_per_second, 1024);
  EXPECT_EQ(monitor.view().store_bytes, 120 * 1024);
}

TEST(MonitorTest, ReportsDiskOfStateDirectory) {
  const testing::TempDir dir;
  Monitor monitor(dir.path());
  monitor.Sample(kBegin, 0);
  const std::filesystem::space_info space = std::filesystem::space(dir.path());
  EXPECT_EQ(monitor.view().disk_bytes, static_cast<int64_t>(space.capacity));
  EXPECT_GT(monitor.view().disk_free_bytes, 0);
  EXPECT_TRUE(monitor.view().disk_writable);
}

}  // namespace
}  // namespace ranklog::daemon
