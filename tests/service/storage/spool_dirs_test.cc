#include "service/storage/directories/spool_dirs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class SpoolDirsTest : public ::testing::Test {
 protected:
  // Makes the directory, and returns the path of a ring in it.
  std::string RingIn(const std::string& name) const {
    std::filesystem::create_directory(spools_.File(name));
    return spools_.File(name) + "/ring-1-1.spool";
  }

  const testing::TempDir state_;
  const testing::TempDir spools_;
};

TEST_F(SpoolDirsTest, RemembersDirectoriesOfRings) {
  SpoolDirs dirs(state_.path(), {spools_.File("standard")});
  EXPECT_OK(dirs.Remember(RingIn("a")));
  EXPECT_OK(dirs.Remember(RingIn("a")));
  EXPECT_OK(dirs.Remember(RingIn("standard")));
  EXPECT_THAT(dirs.All(), ElementsAre(spools_.File("a")));
  EXPECT_THAT(RememberedSpoolDirs(state_.path()), ElementsAre(spools_.File("a")));
}

// The disk of the directory may be mounted after the daemon has started.
TEST_F(SpoolDirsTest, KeepsMissingDirectories) {
  EXPECT_OK(SpoolDirs(state_.path(), {}).Remember(RingIn("scratch")));
  std::filesystem::remove(spools_.File("scratch"));
  SpoolDirs dirs(state_.path(), {});
  EXPECT_OK(dirs.Remember(RingIn("new")));
  EXPECT_THAT(dirs.All(), ElementsAre(spools_.File("scratch"), spools_.File("new")));
  EXPECT_THAT(RememberedSpoolDirs(state_.path()), SizeIs(2));
}

TEST_F(SpoolDirsTest, ForgetsAMissingDirectoryFirst) {
  SpoolDirs dirs(state_.path(), {});
  for (size_t i = 0; i < SpoolDirs::kMost; ++i) EXPECT_OK(dirs.Remember(RingIn(absl::StrCat(i))));
  std::filesystem::remove(spools_.File("7"));
  EXPECT_OK(dirs.Remember(RingIn("new")));
  EXPECT_THAT(dirs.All(), SizeIs(SpoolDirs::kMost));
  EXPECT_THAT(dirs.All(), Not(Contains(spools_.File("7"))));
  EXPECT_OK(dirs.Remember(RingIn("newer")));
  EXPECT_THAT(dirs.All(), SizeIs(SpoolDirs::kMost));
  EXPECT_THAT(dirs.All(), Not(Contains(spools_.File("0"))));
}

TEST_F(SpoolDirsTest, FailedWriteForgetsNothing) {
  SpoolDirs dirs(state_.path(), {});
  for (size_t i = 0; i < SpoolDirs::kMost; ++i) EXPECT_OK(dirs.Remember(RingIn(absl::StrCat(i))));
  const std::vector<std::string> before = dirs.All();
  // In its way, which also stops root.
  std::filesystem::create_directory(state_.File("spool_dirs.part"));
  EXPECT_FALSE(dirs.Remember(RingIn("new")).ok());
  EXPECT_EQ(dirs.All(), before);
}

}  // namespace
}  // namespace ranklog::storage
