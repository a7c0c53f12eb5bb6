#include "service/storage/migrations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "service/storage/store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::HasSubstr;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

class MigrationsTest : public ::testing::Test {
 protected:
  Database OpenFile() {
    std::ofstream(path_, std::ios::app).flush();
    auto database = Database::Open(path_, Database::Mode::kReadWrite, nullptr);
    EXPECT_OK(database);
    return *std::move(database);
  }

  TempDir dir_;
  const std::string path_ = dir_.File(kStoreFile);
  const char* const first_ = "CREATE TABLE t(a); INSERT INTO t VALUES(1)";
  const char* const second_ = "ALTER TABLE t ADD COLUMN b DEFAULT 7";
  const char* const third_ = "UPDATE t SET a = a + b";
};

TEST_F(MigrationsTest, BringAFileFromAnyVersionToTheLast) {  // S40
  Database database = OpenFile();
  ASSERT_OK(Migrate(database, {first_}));
  EXPECT_THAT(database.SelectInteger("PRAGMA user_version"), IsOkAndHolds(1));
  EXPECT_THAT(database.SelectInteger("PRAGMA application_id"), IsOkAndHolds(kApplicationId));
  ASSERT_OK(Migrate(database, {first_, second_, third_}));
  ASSERT_OK(Migrate(database, {first_, second_, third_})) << "and then has nothing to do";
  EXPECT_THAT(database.SelectInteger("PRAGMA user_version"), IsOkAndHolds(3));
  EXPECT_THAT(database.SelectInteger("SELECT a FROM t"), IsOkAndHolds(8));
}

TEST_F(MigrationsTest, HappenWhollyOrNotAtAll) {
  Database database = OpenFile();
  ASSERT_OK(Migrate(database, {first_}));
  EXPECT_THAT(Migrate(database, {first_, second_, "UPDATE absent SET a = 1"}),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_FALSE(database.in_transaction());
  EXPECT_THAT(database.SelectInteger("PRAGMA user_version"), IsOkAndHolds(1));
  EXPECT_THAT(database.SelectInteger("SELECT count(*) FROM pragma_table_info('t')"),
              IsOkAndHolds(1));
}

TEST_F(MigrationsTest, LeaveTheFileOfANewerVersionAlone) {
  {
    Database database = OpenFile();
    ASSERT_OK(Migrate(database, Migrations()));
    ASSERT_OK(
        database.Execute(absl::StrCat("PRAGMA user_version = ", Migrations().size() + 1).c_str()));
  }
  EXPECT_THAT(Store::Open(dir_.path(), {}),
              StatusIs(kFailedPrecondition, HasSubstr("a newer Ranklog wrote it")));
  EXPECT_THAT(StoreReader::Open(dir_.path()),
              StatusIs(kFailedPrecondition, HasSubstr("a newer Ranklog wrote it")));
}

TEST_F(MigrationsTest, LeaveAnotherProgramsDatabaseAlone) {
  ASSERT_OK(OpenFile().Execute("CREATE TABLE theirs(a)"));
  EXPECT_THAT(Store::Open(dir_.path(), {}),
              StatusIs(kFailedPrecondition, HasSubstr("another program")));
  EXPECT_THAT(StoreReader::Open(dir_.path()),
              StatusIs(kFailedPrecondition, HasSubstr("another program")));
}

TEST_F(MigrationsTest, AreNotForAReader) {
  {
    Database database = OpenFile();
    EXPECT_THAT(StoreReader::Open(dir_.path()), StatusIs(absl::StatusCode::kNotFound)) << "empty";
    ASSERT_OK(Migrate(database, {first_}));
    EXPECT_OK(CheckReadable(database, 1));
    EXPECT_THAT(CheckReadable(database, 2),
                StatusIs(kFailedPrecondition, HasSubstr("start ranklogd once")));
  }
}

// The page that describes the format says which tables there are; this says that they are there.
TEST_F(MigrationsTest, MakeTheTablesOfVersion1) {
  Database database = OpenFile();
  ASSERT_OK(Migrate(database, Migrations()));
  std::string tables;
  Query query =
      database.Select("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  while (query.Next()) absl::StrAppend(&tables, query.Text(0), " ");
  EXPECT_EQ(
      tables,
      "dead_letter delivery job run run_batch run_shape run_update shape stream stream_batch ");
}

}  // namespace
}  // namespace ranklog::storage
