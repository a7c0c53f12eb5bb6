#include "service/cli/doctor/node_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace ranklog::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The ranks skip it by the same rules: see client/spool_test.cc.
TEST(NodeCheckTest, SpoolRoomSkipsUnusableDirectory) {
  testing::TempDir dir;
  const std::string open = dir.File("open");
  ASSERT_EQ(mkdir(open.c_str(), 0700), 0);
  setenv("RANKLOG_SPOOL_DIR", open.c_str(), 1);
  EXPECT_THAT(CheckSpoolRoom(1).text, StartsWith(open));
  EXPECT_THAT(CheckSpoolRoom(1).advice, Not(HasSubstr("RANKLOG_SPOOL_DIR: ")));
  ASSERT_EQ(chmod(open.c_str(), 0777), 0);
  const Finding skipped = CheckSpoolRoom(1);
  setenv("RANKLOG_SPOOL_DIR", (dir.File("missing") + "/").c_str(), 1);
  const Finding missing = CheckSpoolRoom(1);
  ASSERT_EQ(symlink(dir.path().c_str(), dir.File("link").c_str()), 0);
  setenv("RANKLOG_SPOOL_DIR", (dir.File("link") + "/").c_str(), 1);
  const Finding link = CheckSpoolRoom(1);
  unsetenv("RANKLOG_SPOOL_DIR");
  EXPECT_THAT(missing.text, StartsWith(dir.File("missing") + ","));
  EXPECT_THAT(link.advice, HasSubstr(dir.File("link") + " is a symbolic link"));
  EXPECT_THAT(skipped.text, Not(HasSubstr(open)));
  EXPECT_THAT(skipped.advice, StartsWith("ranks do not use RANKLOG_SPOOL_DIR: " + open +
                                         " is writable by other users; run: chmod 700 " + open));
}

}  // namespace
}  // namespace ranklog::cli
