#include "service/sample/mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::sample {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kMountInfo[] =
    "22 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw,errors=continue\n"
    "23 22 8:2 / /data rw - xfs /dev/sda2 rw\n"
    "24 22 8:3 / /with\\040blank rw - xfs /dev/sda3 rw\n"
    "25 22 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

TEST(MountsTest, LongestMountPointWins) {
  const auto mounts = ParseMounts(kMountInfo);
  ASSERT_THAT(mounts, SizeIs(4));
  EXPECT_EQ(MountOf(mounts, "/")->source, "/dev/sda1");
  EXPECT_EQ(MountOf(mounts, "/database")->source, "/dev/sda1");
  EXPECT_EQ(MountOf(mounts, "/data")->number, "8:2");
  EXPECT_EQ(MountOf(mounts, "/data/set")->number, "8:2");
  EXPECT_EQ(MountOf(mounts, "/with blank/x")->number, "8:3");
  EXPECT_EQ(MountOf(mounts, "relative"), nullptr);
  EXPECT_EQ(MountOf({}, "/"), nullptr);
}

TEST(MountsTest, LaterMountHidesTheEarlier) {
  const auto mounts = ParseMounts(std::string(kMountInfo) + "30 22 8:9 / / rw - xfs /dev/sdb rw\n");
  EXPECT_EQ(MountOf(mounts, "/home")->number, "8:9");
}

TEST(MountsTest, CgroupIsBelowItsMountPoint) {
  const auto mounts = ParseMounts(kMountInfo);
  EXPECT_EQ(CgroupDirectory(mounts, "2:cpu:/x\n0::/job_7/step\n"), "/sys/fs/cgroup/job_7/step");
  EXPECT_EQ(CgroupDirectory(mounts, "0::/\n"), "/sys/fs/cgroup");
  EXPECT_EQ(CgroupDirectory(mounts, "2:cpu:/x\n"), absl::nullopt);
  EXPECT_EQ(CgroupDirectory({}, "0::/\n"), absl::nullopt);
}

TEST(MountsTest, ContainerSeesAPartOfTheCgroups) {
  const auto mounts = ParseMounts("25 22 0:5 /pods/pod1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(CgroupDirectory(mounts, "0::/pods/pod1/c\n"), "/sys/fs/cgroup/c");
  EXPECT_EQ(CgroupDirectory(mounts, "0::/pods/pod1\n"), "/sys/fs/cgroup");
  EXPECT_EQ(CgroupDirectory(mounts, "0::/pods/pod12\n"), absl::nullopt);
}

TEST(MountsTest, GarbageIsIgnored) {
  EXPECT_THAT(ParseMounts("\n\nx\n1 2 3 4 5 6 7 8\n1 2 8:1 / / rw -\n"), IsEmpty());
}

}  // namespace
}  // namespace ranklog::sample
