#include "service/storage/directories/state_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StateLockTest, HasOneHolderAndNamesIt) {
  TempDir dir;
  const std::string state_dir = dir.File("made/for/it");
  EXPECT_EQ(StateLock::Holder(state_dir), 0);
  {
    ASSERT_OK_AND_ASSIGN(const StateLock lock, StateLock::Acquire(state_dir));
    EXPECT_EQ(StateLock::Holder(state_dir), getpid());
    EXPECT_THAT(StateLock::Acquire(state_dir),
                StatusIs(absl::StatusCode::kAlreadyExists,
                         AllOf(HasSubstr(absl::StrCat("in use by process ", getpid(), ",")),
                               HasSubstr("run: ranklog stop --state-dir " + state_dir))));
    EXPECT_EQ(StateLock::Holder(state_dir), getpid()) << "a refused one leaves the pid";
  }
  EXPECT_EQ(StateLock::Holder(state_dir), 0);
  EXPECT_OK(StateLock::Acquire(state_dir));
}

TEST(StateLockTest, HolderSeesLockRequests) {
  TempDir dir;
  {
    ASSERT_OK_AND_ASSIGN(const StateLock lock, StateLock::Acquire(dir.path()));
    EXPECT_FALSE(StateRequest::Any(dir.path()));
    const StateRequest wish(dir.path());
    const StateRequest another(dir.path());
    EXPECT_TRUE(StateRequest::Any(dir.path()));
    EXPECT_EQ(StateLock::Holder(dir.path()), getpid());
  }
  EXPECT_FALSE(StateRequest::Any(dir.path()));
  const StateRequest wish(dir.path());
  EXPECT_EQ(StateLock::Holder(dir.path()), 0);
  EXPECT_OK(StateLock::Acquire(dir.path()));
}

TEST(StateLockTest, IsReleasedWhenHolderDies) {
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

// For example, systemd-tmpfiles removes files in /var/tmp after 30 days.
TEST(StateLockTest, HoldsThoughItsFileIsRemoved) {
  TempDir dir;
  const std::string path = dir.File("lock");
  ASSERT_OK_AND_ASSIGN(StateLock lock, StateLock::Acquire(dir.path()));
  ASSERT_OK_AND_ASSIGN(bool made, lock.Keep());
  EXPECT_FALSE(made);
  ASSERT_EQ(unlink(path.c_str()), 0);
  auto second = std::async(std::launch::async, [&] { return StateLock::Acquire(dir.path()); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(120)), std::future_status::timeout);
  ASSERT_OK_AND_ASSIGN(made, lock.Keep());
  EXPECT_TRUE(made);
  EXPECT_THAT(second.get(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(absl::StrCat(getpid()))));
  EXPECT_EQ(StateLock::Holder(dir.path()), getpid());
  const StateLock moved = std::move(lock);
  EXPECT_THAT(StateLock::Acquire(dir.path()), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST(StateLockTest, WaitsForTemporaryDirectoryLock) {
  TempDir dir;
  const int cleaner = open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(cleaner, LOCK_EX | LOCK_NB), 0);
  std::thread ends([cleaner] {
    absl::SleepFor(absl::Milliseconds(120));
    close(cleaner);
  });
  ASSERT_OK_AND_ASSIGN(const StateLock lock, StateLock::Acquire(dir.path()));
  ends.join();
  const int next = open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_NE(flock(next, LOCK_SH | LOCK_NB), 0) << "systemd-tmpfiles passes over the directory";
  close(next);
}

TEST(StateLockTest, FailsIfDirectoryCannotBeCreated) {
  TempDir dir;
  std::ofstream(dir.File("file")) << "x";
  EXPECT_THAT(StateLock::Acquire(dir.File("file/state")),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace ranklog::storage
