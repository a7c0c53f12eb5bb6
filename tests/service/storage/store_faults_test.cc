// Disks that fill up and break, power cuts, and processes that are killed.

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "service/storage/database/store_file.h"
#include "tests/service/storage/store_fixture.h"
#include "tests/support/faulty_vfs.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::Dense;
using ::ranklog::testing::FaultyVfs;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::Keys;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::HasSubstr;

constexpr auto kFull = absl::StatusCode::kResourceExhausted;

// A stream of one shape with one key.
absl::StatusOr<int64_t> AddStream(Store& store) {
  if (absl::Status status = store.Begin(); !status.ok()) return status;
  const auto stream = store.Attach(SessionOf(0), AssignmentOf("job"), 1);
  if (!stream.ok()) return stream.status();
  store.DefineShape(stream->id, 1, Keys(1)).IgnoreError();
  if (absl::Status status = store.Commit(); !status.ok()) return status;
  return stream->id;
}

absl::Status AppendAndCommit(Store& store, int64_t stream, uint64_t first, uint64_t rows) {
  if (absl::Status status = store.Begin(); !status.ok()) return status;
  store.Append(stream, Dense(first, rows, 1, 1)).IgnoreError();  // Commit() returns the error again
  return store.Commit();
}

// Returns the last row of the stream; -1 if there is a gap, or if it cannot be read.
int64_t RowsIn(const std::string& directory, int64_t stream) {
  auto reader = StoreReader::Open(directory);
  EXPECT_OK(reader);
  if (!reader.ok()) return -1;
  const auto batches = (*reader)->StreamBatches(stream, 0, 1 << 30);
  EXPECT_OK(batches);
  if (!batches.ok()) return -1;
  uint64_t next = 1;
  for (const StoredBatch& stored : *batches) {
    if (stored.batch.first != next) return -1;
    next = stored.batch.last + 1;
  }
  EXPECT_EQ(StoredStream(**reader, stream).value_or(model::Stream()).durable_seq, next - 1);
  return static_cast<int64_t>(next) - 1;
}

class FaultyDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(dir_.path(), {.vfs = vfs_.name()}));
    ASSERT_OK_AND_ASSIGN(stream_, AddStream(*store_));
    ASSERT_OK(AppendAndCommit(*store_, stream_, 1, 10));
  }

  TempDir dir_;
  FaultyVfs vfs_;
  std::unique_ptr<Store> store_;
  int64_t stream_ = 0;
};

TEST_F(FaultyDiskTest, FullDiskKeepsCommitsAndRecovers) {  // S22
  vfs_.FailWrites(1, ENOSPC);
  EXPECT_THAT(AppendAndCommit(*store_, stream_, 11, 10), StatusIs(kFull));
  EXPECT_THAT(AppendAndCommit(*store_, stream_, 11, 10), StatusIs(kFull));
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 10);
  vfs_.Heal();
  EXPECT_OK(AppendAndCommit(*store_, stream_, 11, 10));
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 20);
}

TEST_F(FaultyDiskTest, QuotaOrSizeLimitMeansFull) {
  for (const int error : {EDQUOT, EFBIG}) {
    vfs_.FailWrites(1, error);
    EXPECT_THAT(AppendAndCommit(*store_, stream_, 11, 10), StatusIs(kFull));
    vfs_.Heal();
    vfs_.FailSyncs(1, error);
    EXPECT_THAT(AppendAndCommit(*store_, stream_, 11, 10), StatusIs(kFull));
    vfs_.Heal();
  }
  EXPECT_OK(AppendAndCommit(*store_, stream_, 11, 10));
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 20);
}

// What a daemon finds that starts after this one was killed.
int64_t RowsAfterKill(const TempDir& dir, int64_t stream) {
  const TempDir copy;
  std::filesystem::copy(dir.path(), copy.path(), std::filesystem::copy_options::recursive);
  EXPECT_OK(Store::Open(copy.path(), {}));
  return RowsIn(copy.path(), stream);
}

TEST_F(FaultyDiskTest, EmptyCommitOverwritesFailedOne) {
  vfs_.FailSyncs(1, EIO);
  EXPECT_FALSE(AppendAndCommit(*store_, stream_, 11, 10).ok());
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 10);
  EXPECT_EQ(RowsAfterKill(dir_, stream_), 20);
  vfs_.Heal();
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->Commit());
  EXPECT_EQ(RowsAfterKill(dir_, stream_), 10);
}

// SQLite ends the transaction then. The same code for a caller without a transaction would mean that
// the write itself is refused.
TEST_F(FaultyDiskTest, FailedReadFailsRestOfTransaction) {
  constexpr auto kDisk = absl::StatusCode::kInternal;
  {
    ASSERT_OK_AND_ASSIGN(const auto other, Store::Open(dir_.path(), {}));
    ASSERT_OK(AppendAndCommit(*other, stream_, 11, 10));  // what store_ has in memory is old now
  }
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->Mark());
  vfs_.FailReads(1, EIO);
  EXPECT_THAT(store_->StreamOfRing(SessionOf(0).stream), StatusIs(kDisk));
  vfs_.Heal();
  store_->RollbackToMark();
  EXPECT_THAT(store_->SetProgress(stream_, 1), StatusIs(kDisk, HasSubstr("I/O error")));
  EXPECT_THAT(store_->Commit(), StatusIs(kDisk, HasSubstr("I/O error")));
  EXPECT_OK(AppendAndCommit(*store_, stream_, 21, 10));
}

// The kernel does this to a failed disk, even for open files.
TEST_F(FaultyDiskTest, RecoversFromReadOnlyFileSystem) {
  vfs_.FailWrites(1, EROFS);
  EXPECT_THAT(AppendAndCommit(*store_, stream_, 11, 10),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Read-only file system")));
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 10);
  vfs_.Heal();
  EXPECT_OK(AppendAndCommit(*store_, stream_, 11, 10));
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 20);
}

// SQLite would continue to write to files that nobody can open any more.
TEST_F(FaultyDiskTest, CommitToRemovedFileFails) {
  EXPECT_TRUE(store_->InPlace());
  std::filesystem::rename(dir_.File(kStoreFile), dir_.File("elsewhere"));
  EXPECT_FALSE(store_->InPlace());
  EXPECT_THAT(AppendAndCommit(*store_, stream_, 11, 10),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("removed or replaced")));
  std::ofstream(dir_.File(kStoreFile)).put('x');
  EXPECT_FALSE(store_->InPlace());
}

// Nothing reaches the disk before Commit(), so a full disk never looks like the fault of a single
// append.
TEST_F(FaultyDiskTest, OnlyCommitWrites) {
  const int64_t writes = vfs_.writes();
  ASSERT_OK(store_->Begin());
  uint64_t next = 11;
  for (int i = 0; i < 64; ++i, next += 10'000) {  // 6 MB, three times SQLite's cache
    ASSERT_OK(store_->Mark());
    ASSERT_OK(store_->Append(stream_, Dense(next, 10'000, 1, 1)));
  }
  EXPECT_EQ(vfs_.writes(), writes);
  ASSERT_OK(store_->Commit());
  EXPECT_GT(vfs_.writes(), writes);
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 640'010);
}

TEST_F(FaultyDiskTest, SyncsOncePerCommit) {
  ASSERT_OK(AppendAndCommit(*store_, stream_, 11, 10));  // the log's header exists now
  const int64_t syncs = vfs_.syncs();
  ASSERT_OK(AppendAndCommit(*store_, stream_, 21, 1000));
  EXPECT_EQ(vfs_.syncs(), syncs + 1);
}

TEST_F(FaultyDiskTest, FailedSyncIsInternalError) {
  vfs_.FailSyncs(1, EIO);
  EXPECT_THAT(AppendAndCommit(*store_, stream_, 11, 10), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(FaultyDiskTest, FailsACheckpointWithoutLoss) {
  vfs_.FailWrites(1, ENOSPC);
  EXPECT_THAT(store_->Checkpoint(), StatusIs(kFull));
  vfs_.Heal();
  EXPECT_OK(store_->Checkpoint());
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 10);
}

// Any write of a commit or a checkpoint may be the first to fail. No committed row is lost or
// duplicated.
TEST_F(FaultyDiskTest, SurvivesAFailureAtAnyWrite) {
  uint64_t next = 11;
  for (int64_t n = 1; n <= 40; ++n) {
    vfs_.FailWrites(n, ENOSPC);
    while (true) {
      const absl::Status status = AppendAndCommit(*store_, stream_, next, 50);
      if (!status.ok()) {
        EXPECT_THAT(status, StatusIs(kFull));
        break;
      }
      next += 50;
      if (n % 3 == 0 && !store_->Checkpoint().ok()) break;
    }
    vfs_.Heal();
    ASSERT_EQ(RowsIn(dir_.path(), stream_), static_cast<int64_t>(next) - 1) << "write " << n;
  }
}

TEST_F(FaultyDiskTest, CommitsSurviveAPowerCut) {
  ASSERT_OK(store_->Checkpoint());
  ASSERT_OK(AppendAndCommit(*store_, stream_, 11, 10));
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->Append(stream_, Dense(21, 10, 1, 1)));
  vfs_.CutPower();
  EXPECT_FALSE(store_->Commit().ok());
  store_.reset();
  vfs_.LoseUnsynced();
  ASSERT_OK_AND_ASSIGN(store_, Store::Open(dir_.path(), {.vfs = vfs_.name()}));
  EXPECT_EQ(RowsIn(dir_.path(), stream_), 20);
  EXPECT_OK(AppendAndCommit(*store_, stream_, 21, 10));
}

// A writer may be killed anywhere in a commit. What the next writer finds of it must survive a
// power cut, since the next one may act on it.
TEST_F(FaultyDiskTest, VisibleCommitSurvivesAPowerCut) {
  const auto reopen = [this] {
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(dir_.path(), {.vfs = vfs_.name()}));
  };
  int64_t rows = 10;
  int found_uncommitted = 0;
  for (int64_t n = 1; n <= 12; ++n) {
    vfs_.FreezeAt(n);
    const auto first = static_cast<uint64_t>(rows) + 1;
    const bool committed = AppendAndCommit(*store_, stream_, first, 5).ok();
    store_.reset();
    vfs_.Thaw();
    reopen();
    const int64_t seen = RowsIn(dir_.path(), stream_);
    if (!committed && seen > rows) ++found_uncommitted;

    vfs_.CutPower();
    store_.reset();
    vfs_.LoseUnsynced();
    reopen();
    EXPECT_EQ(RowsIn(dir_.path(), stream_), seen) << "killed at write or sync " << n;
    rows = seen;
  }
  EXPECT_GT(found_uncommitted, 0);
}

// Commits, reports each commit to the parent over the pipe, and continues until it is killed.
[[noreturn]] void CommitUntilKilled(const std::string& directory, int64_t stream, int to_parent) {
  auto store = Store::Open(directory, {});
  if (!store.ok()) _exit(1);
  for (uint64_t last = 0;;) {
    const uint64_t rows = last % 7 + 1;
    if (!AppendAndCommit(**store, stream, last + 1, rows).ok()) _exit(2);
    last += rows;
    if (last % 5 == 0 && !(*store)->Checkpoint().ok()) _exit(3);
    if (write(to_parent, &last, sizeof(last)) != sizeof(last)) _exit(4);
  }
}

TEST(KilledWriterTest, LeavesEverythingThatItCommitted) {
  for (int round = 0; round < 5; ++round) {
    TempDir dir;
    int64_t stream = 0;
    {
      ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(dir.path(), {}));
      ASSERT_OK_AND_ASSIGN(stream, AddStream(*store));
    }
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) CommitUntilKilled(dir.path(), stream, pipe_ends[1]);
    close(pipe_ends[1]);
    uint64_t reported = 0;
    const uint64_t enough = 20 + static_cast<uint64_t>(round) * 17;
    while (reported < enough && read(pipe_ends[0], &reported, sizeof(reported)) > 0) {
    }
    EXPECT_GE(reported, enough) << "the child ended by itself";
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (uint64_t more; read(pipe_ends[0], &more, sizeof(more)) == sizeof(more);) reported = more;
    close(pipe_ends[0]);
    EXPECT_GE(RowsIn(dir.path(), stream), static_cast<int64_t>(reported));
    EXPECT_OK(Store::Open(dir.path(), {}));
  }
}

}  // namespace
}  // namespace ranklog::storage
