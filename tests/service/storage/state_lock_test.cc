#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "service/storage/store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::HasSubstr;

TEST(StateLockTest, IsHeldByOneAndNamesIt) {
  TempDir dir;
  const std::string state_dir = dir.File("made/for/it");
  EXPECT_EQ(StateLock::Holder(state_dir), 0);
  {
    ASSERT_OK_AND_ASSIGN(const StateLock lock, StateLock::Acquire(state_dir));
    EXPECT_EQ(StateLock::Holder(state_dir), getpid());
    EXPECT_THAT(StateLock::Acquire(state_dir),
                StatusIs(absl::StatusCode::kAlreadyExists,
                         HasSubstr(absl::StrCat("in use by process ", getpid(), ","))));
    EXPECT_EQ(StateLock::Holder(state_dir), getpid()) << "a refused one leaves the pid";
  }
  EXPECT_EQ(StateLock::Holder(state_dir), 0);
  EXPECT_OK(StateLock::Acquire(state_dir));
}

TEST(StateLockTest, GoesWithTheProcessThatHeldIt) {
  TempDir dir;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = StateLock::Acquire(dir.path());
    (void)!write(pipe_ends[1], lock.ok() ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(pipe_ends[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_EQ(StateLock::Holder(dir.path()), child);
  EXPECT_THAT(StateLock::Acquire(dir.path()),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(absl::StrCat(child))));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(StateLock::Holder(dir.path()), 0);
  EXPECT_OK(StateLock::Acquire(dir.path()));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(StateLockTest, IsRefusedWhereTheDirectoryCannotBeMade) {
  TempDir dir;
  std::ofstream(dir.File("file")) << "x";
  EXPECT_THAT(StateLock::Acquire(dir.File("file/state")),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace ranklog::storage
