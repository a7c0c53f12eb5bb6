#include "trainer/base/lock_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::HasSubstr;

class LockFileTest : public ::testing::Test {
 protected:
  const ranklog::testing::TempDir dir_;
};

TEST_F(LockFileTest, ExcludesOtherProcessUntilItEnds) {
  ASSERT_OK_AND_ASSIGN(LockFile lock, LockFile::Open(dir_.path()));
  ranklog::testing::ChildProcess other(
      {"flock", "--no-fork", dir_.File(".lock"), "sh", "-c", "echo locked; exec sleep 100"});
  ASSERT_TRUE(ranklog::testing::WaitFor([&] { return other.Output() == "locked\n"; }));
  EXPECT_THAT(lock.TryTake(), StatusIs(absl::StatusCode::kUnavailable));
  other.Signal(SIGKILL);
  EXPECT_OK(lock.Take());
}

TEST_F(LockFileTest, EndsWithItsObject) {
  ASSERT_OK_AND_ASSIGN(LockFile first, LockFile::Open(dir_.path()));
  ASSERT_OK_AND_ASSIGN(LockFile second, LockFile::Open(dir_.path()));
  {
    const LockFile moved = std::move(first);
    ASSERT_OK(second.TryTake());
  }
  ASSERT_OK_AND_ASSIGN(LockFile third, LockFile::Open(dir_.path()));
  EXPECT_THAT(third.TryTake(), StatusIs(absl::StatusCode::kUnavailable));
  { const LockFile ended = std::move(second); }
  EXPECT_OK(third.TryTake());
}

// NFS passes a lock to its server only for a regular file that is open for writing.
TEST_F(LockFileTest, LocksRegularFileOpenForWriting) {
  const int next = dup(STDERR_FILENO);
  close(next);
  ASSERT_OK_AND_ASSIGN(const LockFile lock, LockFile::Open(dir_.path()));
  struct stat status {};
  ASSERT_EQ(fstat(next, &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
  EXPECT_EQ(fcntl(next, F_GETFL) & O_ACCMODE, O_RDWR);
}

TEST_F(LockFileTest, MissingDirectoryErrorNamesFile) {
  EXPECT_THAT(LockFile::Open(dir_.File("none")).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none/.lock")));
}

// A cache that several users share.
TEST_F(LockFileTest, TakesLockOfFileOfOtherUser) {
  SKIP_WITHOUT(geteuid() == 0, "root, who can act as another user");
  // Whoever may write to the directory may lock for writing.
  ASSERT_EQ(chmod(dir_.path().c_str(), 0770), 0);
  ASSERT_OK(LockFile::Open(dir_.path()).status());
  struct stat status {};
  ASSERT_EQ(stat(dir_.File(".lock").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0660);
  ASSERT_EQ(chmod(dir_.File(".lock").c_str(), 0644), 0);
  ASSERT_EQ(chmod(dir_.path().c_str(), 0777), 0);
  ASSERT_EQ(seteuid(65534), 0);
  absl::StatusOr<LockFile> lock = LockFile::Open(dir_.path());
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_OK(lock.status());
  EXPECT_OK(lock->TryTake());
}

}  // namespace
}  // namespace ranklog::trainer
