#include "service/storage/directories/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "ranklog/v1/places.h"
#include "tests/support/absent.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::HasSubstr;

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_mode & 0777;
}

TEST(FileSystemTest, KnowsNetworkFileSystems) {  // S22
  const std::pair<uint32_t, const char*> systems[] = {
      {0x6969, "NFS"},     {0x0BD00BD0, "Lustre"},   {0x47504653, "GPFS"}, {0xFF534D42, "CIFS"},
      {0x6B414653, "AFS"}, {0x20030528, "OrangeFS"}, {0x73757245, "Coda"}};
  for (const auto& [type, name] : systems) EXPECT_STREQ(v1::NetworkFileSystemName(type), name);
}

TEST(FileSystemTest, AcceptsLocalFileSystems) {
  EXPECT_STREQ(v1::NetworkFileSystemName(0xEF53), "") << "ext4";
  EXPECT_STREQ(v1::NetworkFileSystemName(0x01021994), "") << "tmpfs";
  EXPECT_STREQ(v1::NetworkFileSystemName(v1::kFuseType), "") << "FUSE";
  TempDir dir;
  EXPECT_OK(CheckLocal(dir.path()));
}

// As written by Linux 6.18 and sshfs 3.7.
constexpr char kMounts[] =
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "41 27 0:38 / /mnt/over rw,nosuid - fuse.bindfs /mnt/a rw,user_id=0\n"
    "42 27 0:39 / /tmp/m rw,nosuid,nodev,relatime - fuse.sshfs host:/tmp/r rw,user_id=0\n"
    "43 27 0:40 / /odd\\040- rw shared:2 master:1 - fuse.rclone remote: rw\n"
    "44 27 0:41 / /cut rw -\n";

TEST(FileSystemTest, KnowsNetworkFileSystemsByFuse) {  // S22
  EXPECT_EQ(NetworkFuseName(kMounts, makedev(0, 39)), "sshfs");
  EXPECT_EQ(NetworkFuseName(kMounts, makedev(0, 40)), "rclone");
  EXPECT_EQ(NetworkFuseName(kMounts, makedev(0, 38)), "") << "a local disk, laid out anew";
  EXPECT_EQ(NetworkFuseName(kMounts, makedev(254, 0)), "");
  EXPECT_EQ(NetworkFuseName(kMounts, makedev(0, 41)), "");
  EXPECT_EQ(NetworkFuseName(kMounts, makedev(0, 3)), "");
  EXPECT_EQ(NetworkFuseName("", makedev(0, 39)), "");
}

TEST(FileSystemTest, MakesPrivateDirectoriesAndFiles) {
  TempDir dir;
  const std::string made = dir.File("a/b/c");
  ASSERT_OK(MakeDirectory(made));
  ASSERT_OK(MakeDirectory(made));
  EXPECT_EQ(ModeOf(made), 0700);
  ASSERT_OK(MakeFile(made + "/file"));
  EXPECT_EQ(ModeOf(made + "/file"), 0600);
}

TEST(FileSystemTest, ParentsAreNotWritableByOthers) {
  TempDir dir;
  const mode_t before = umask(0);
  EXPECT_OK(MakeDirectory(dir.File("a/b/c/")));
  umask(before);
  for (const char* made : {"a", "a/b", "a/b/c"}) EXPECT_EQ(ModeOf(dir.File(made)), 0700);
}

TEST(FileSystemTest, AcceptsOwnLinkToOwnDirectory) {
  TempDir dir;
  ASSERT_EQ(mkdir(dir.File("disk").c_str(), 0755), 0);
  ASSERT_EQ(symlink(dir.File("disk").c_str(), dir.File("state").c_str()), 0);
  EXPECT_OK(MakeDirectory(dir.File("state")));
  ASSERT_EQ(chmod(dir.File("disk").c_str(), 0775), 0);
  EXPECT_THAT(MakeDirectory(dir.File("state")), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(FileSystemTest, RefusedFileComesWithRemedy) {
  TempDir dir;
  constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
  std::ofstream(dir.File("file")) << "x";
  ASSERT_EQ(symlink(dir.File("file").c_str(), dir.File("link").c_str()), 0);
  EXPECT_THAT(CheckFile(dir.File("link")),
              StatusIs(kDenied, HasSubstr("replace it with the file itself")));
  EXPECT_THAT(CheckFile(dir.path()),
              StatusIs(kDenied, HasSubstr("remove it, or choose another directory")));
  SKIP_WITHOUT(geteuid() == 0, "root, to leave a file of another user");
  ASSERT_EQ(chown(dir.File("file").c_str(), 65534, 65534), 0);
  EXPECT_THAT(CheckFile(dir.File("file")),
              StatusIs(kDenied, HasSubstr(" belongs to user 65534, not to 0; choose a directory of "
                                          "your own with --state-dir")));
}

TEST(FileSystemTest, RefusesFileInDirectoryPath) {
  TempDir dir;
  std::ofstream(dir.File("file")) << "x";
  constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
  EXPECT_THAT(MakeDirectory(dir.File("file")), StatusIs(kDenied));
  EXPECT_THAT(MakeDirectory(dir.File("file/below")), StatusIs(kDenied));
  EXPECT_THAT(MakeFile(dir.File("none/file")), StatusIs(kDenied));
  EXPECT_THAT(MakeDirectory("/proc/none"),
              StatusIs(kDenied, HasSubstr("with --state-dir or RANKLOG_STATE_DIR")));
}

}  // namespace
}  // namespace ranklog::storage
