// Files whose content is not what the store wrote.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "service/storage/database/store_file.h"
#include "service/storage/rows/damage.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::StoreTest;
using ::testing::SizeIs;

class DamagedStoreTest : public StoreTest {
 protected:
  // Closes the store, so that one file holds everything.
  void Close() {
    reader_.reset();
    store_.reset();
  }
  const std::string path_ = dir_.File(kStoreFile);
};

TEST_F(DamagedStoreTest, DamageDiffersFromAbsence) {
  Close();
  EXPECT_THAT(StoreReader::Open(dir_.File("elsewhere")), StatusIs(absl::StatusCode::kNotFound));
  std::filesystem::remove(path_);
  EXPECT_THAT(StoreReader::Open(dir_.path()), StatusIs(absl::StatusCode::kNotFound));
}

// If a file already has the new name, it stays.
TEST_F(DamagedStoreTest, SettingAsideOverwritesNothing) {
  Close();
  const std::string taken = path_ + ".damaged-19700101T000000Z";
  std::filesystem::create_symlink(dir_.File("nowhere"), taken);
  std::ofstream(taken + "-2-wal") << "a log";
  EXPECT_THAT(SetAside(dir_.path(), absl::UnixEpoch()), IsOkAndHolds(taken + "-3"));
  EXPECT_TRUE(std::filesystem::is_symlink(taken));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_TRUE(std::filesystem::exists(taken + "-3"));
}

// The power failed while the store was being set aside. The file has both names, and it is not
// another user's file.
TEST_F(DamagedStoreTest, InterruptedSetAsideStillOpens) {
  Close();
  std::filesystem::create_hard_link(path_, path_ + ".damaged-19700101T000000Z");
  EXPECT_OK(Store::Open(dir_.path(), {}));
  std::filesystem::create_directory(dir_.File("elsewhere"));
  std::filesystem::create_hard_link(path_, dir_.File("elsewhere/name"));
  EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(DamagedStoreTest, NonDatabaseFileIsDataLoss) {
  Close();
  std::ofstream(path_, std::ios::trunc) << std::string(8192, 'x');
  EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(StoreReader::Open(dir_.path()), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(DamagedStoreTest, TruncatedFileIsDataLoss) {
  const int64_t stream = NewStream();
  Do([&] { EXPECT_OK(store_->Append(stream, Dense(1, 1000, 1, 2))); });
  Close();
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 4096);
  EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(StoreReader::Open(dir_.path()), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(DamagedStoreTest, DamagedPageIsDataLoss) {  // S22
  Close();
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 * 2);
  file << std::string(4096, '\xff');
  file.close();
  EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kDataLoss));
}

// Flips a bit in the middle byte of a batch, wherever it is in the file. Neither SQLite nor Open()
// notices, so the reader must.
TEST_F(DamagedStoreTest, FlippedBatchBitIsDataLoss) {
  const int64_t stream = NewStream();
  Do([&] {
    EXPECT_OK(store_->Append(stream, Dense(1, 10, 1, 2)));
    EXPECT_OK(store_->Append(stream, Dense(11, 1000, 1, 2)));
  });
  Close();
  {
    ASSERT_OK_AND_ASSIGN(Database database,
                         Database::Open(path_, Database::Mode::kReadWrite, nullptr));
    ASSERT_OK_AND_ASSIGN(
        const int64_t size,
        database.SelectInteger("SELECT length(data) FROM stream_batch WHERE id = 2"));
    std::string data;
    {
      Query query = database.Select("SELECT data FROM stream_batch WHERE id = 2");
      ASSERT_TRUE(query.Next());
      data = std::string(query.Bytes(0));
    }
    data[static_cast<size_t>(size / 2)] ^= 0x10;
    ASSERT_OK(
        database.Run("UPDATE stream_batch SET data = ?1 WHERE id = 2", {Parameter::Blob(data)}));
  }
  Reopen();
  EXPECT_THAT(reader_->StreamBatches(stream, 0, 1 << 30), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(reader_->StreamBatches(stream, 0, 1), IsOkAndHolds(SizeIs(1))) << "the one before";
}

TEST_F(DamagedStoreTest, MisplacedBatchIsDataLoss) {
  const int64_t stream = NewStream();
  Do([&] { EXPECT_OK(store_->Append(stream, Dense(1, 10, 1, 2))); });
  Close();
  {
    ASSERT_OK_AND_ASSIGN(Database database,
                         Database::Open(path_, Database::Mode::kReadWrite, nullptr));
    ASSERT_OK(database.Run("UPDATE stream_batch SET last_seq = 12"));
  }
  ASSERT_OK_AND_ASSIGN(reader_, StoreReader::Open(dir_.path()));
  EXPECT_THAT(reader_->StreamBatches(stream, 0, 1 << 30), StatusIs(absl::StatusCode::kDataLoss));
}

// An index that has lost an entry looks like this to a reader. The reader must not skip a row.
TEST_F(DamagedStoreTest, MissingBatchIsDataLoss) {
  const int64_t stream = NewStream();
  Do([&] {
    for (uint64_t first = 1; first <= 21; first += 10) {
      EXPECT_OK(store_->Append(stream, Dense(first, 10, 1, 2)));
    }
  });
  for (const char* lost : {"20", "30"}) {
    Close();
    std::filesystem::copy_file(path_, path_ + lost);
    {
      ASSERT_OK_AND_ASSIGN(Database database,
                           Database::Open(path_, Database::Mode::kReadWrite, nullptr));
      ASSERT_OK(database.Run("DELETE FROM stream_batch WHERE last_seq = ?1", {atoi(lost)}));
    }
    ASSERT_OK_AND_ASSIGN(reader_, StoreReader::Open(dir_.path()));
    EXPECT_THAT(reader_->StreamBatches(stream, 0, 1 << 30), StatusIs(absl::StatusCode::kDataLoss))
        << lost;
    reader_.reset();
    std::filesystem::rename(path_ + lost, path_);
  }
}

TEST_F(DamagedStoreTest, InconsistentStoreIsDataLoss) {
  const int64_t stream = NewStream();
  Do([&] { EXPECT_OK(store_->Append(stream, Dense(1, 10, 1, 2))); });
  for (const char* damage :
       {"UPDATE stream SET durable_seq = 12", "UPDATE stream SET aggregated_seq = 11",
        "UPDATE run SET rows = 3", "UPDATE stream_batch SET stream = 99",
        "ALTER TABLE stream RENAME COLUMN passed_step TO qassed_step"}) {
    Close();
    std::filesystem::copy_file(path_, path_ + ".kept");
    {
      ASSERT_OK_AND_ASSIGN(Database database,
                           Database::Open(path_, Database::Mode::kReadWrite, nullptr));
      ASSERT_OK(database.Execute(damage));
    }
    EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kDataLoss)) << damage;
    std::filesystem::rename(path_ + ".kept", path_);
  }
}

}  // namespace
}  // namespace ranklog::storage
