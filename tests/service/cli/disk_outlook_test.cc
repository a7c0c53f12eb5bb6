#include "service/cli/node/disk_outlook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace ranklog::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DiskOutlookTest, FillingDiskReportsTimeLeft) {
  const testing::TempDir dir;
  const int64_t room = CheckDisk(dir.path(), absl::nullopt).free_bytes;
  const DiskOutlook disk = CheckDisk(dir.path(), static_cast<double>(room) / 3600);
  ASSERT_TRUE(disk.lasts);
  EXPECT_GT(*disk.lasts, absl::Minutes(55));  // others write to the disk too
  EXPECT_LT(*disk.lasts, absl::Minutes(65));
  EXPECT_THAT(DiskText(disk), HasSubstr(", full in "));
}

TEST(DiskOutlookTest, StoreWithoutGrowthNeverFillsDisk) {
  const testing::TempDir dir;
  for (const absl::optional<double> growth :
       {absl::optional<double>(), absl::optional<double>(0), absl::optional<double>(-5),
        absl::optional<double>(1e-9)}) {
    const DiskOutlook disk = CheckDisk(dir.path(), growth);
    EXPECT_FALSE(disk.lasts);
    EXPECT_THAT(DiskText(disk), Not(HasSubstr("full")));
  }
}

TEST(DiskOutlookTest, MissingDirectoryReportsUnknown) {
  EXPECT_EQ(DiskText(CheckDisk("/no/such/place", 5.0)), "unknown");
}

}  // namespace
}  // namespace ranklog::cli
