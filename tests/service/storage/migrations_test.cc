#include "service/storage/migrations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "service/storage/salvage.h"
#include "service/storage/store.h"
#include "tests/service/storage/builders.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                     HasSubstr("a newer Ranklog wrote it")));
  EXPECT_THAT(StoreReader::Open(dir_.path()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                       HasSubstr("a newer Ranklog wrote it")));
}

// A flipped bit in the header's version.
TEST_F(MigrationsTest, TakeAVersionThatTheTablesAreNotOfForDamage) {  // S22
  ASSERT_OK(Store::Open(dir_.path(), {}));
  for (const int64_t version : {0, 1, 1 << 20, -1 - (1 << 30)}) {
    ASSERT_OK(OpenFile().Execute(absl::StrCat("PRAGMA user_version = ", version).c_str()));
    EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kDataLoss)) << version;
  }
}

TEST_F(MigrationsTest, LeaveAnotherProgramsDatabaseAlone) {
  ASSERT_OK(OpenFile().Execute("CREATE TABLE theirs(a)"));
  EXPECT_THAT(Store::Open(dir_.path(), {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another program")));
  EXPECT_THAT(StoreReader::Open(dir_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another program")));
}

TEST_F(MigrationsTest, AreNotForAReader) {
  {
    Database database = OpenFile();
    EXPECT_THAT(StoreReader::Open(dir_.path()), StatusIs(absl::StatusCode::kNotFound)) << "empty";
    ASSERT_OK(Migrate(database, {first_}));
    EXPECT_OK(CheckReadable(database, 1));
    EXPECT_THAT(CheckReadable(database, 2),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("start ranklogd once")));
  }
}

// Its blobs have no owner, and lie beside those that have one.
TEST_F(MigrationsTest, GoOnWithAFileOfVersion2) {  // S40
  std::ifstream dump(STORE_VERSION2);
  const std::string script((std::istreambuf_iterator<char>(dump)), {});
  ASSERT_OK(OpenFile().Execute(script.c_str()));
  EXPECT_THAT(StoreReader::Open(dir_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("start ranklogd once")));

  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(dir_.path(), {}));
  EXPECT_THAT(OpenFile().SelectInteger("PRAGMA user_version"), IsOkAndHolds(10));
  const std::vector<std::string> keys = {"loss", "shared"};
  ASSERT_OK(store->Begin());
  EXPECT_OK(store->DefineShape(1, 1, keys)) << "the same again";
  EXPECT_OK(store->Append(1, ranklog::testing::Dense(7, 4, 1, 2)));
  ASSERT_OK(store->Commit());

  ASSERT_OK_AND_ASSIGN(const auto reader, StoreReader::Open(dir_.path()));
  EXPECT_OK(reader->Check());
  EXPECT_THAT(reader->Shapes(1), IsOkAndHolds(ElementsAre(IsEmpty(), keys)));
  ASSERT_OK_AND_ASSIGN(const auto batches, reader->StreamBatches(1, 0, 1 << 20));
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_THAT(batches[0].batch.blocks.at(0).values,
              ElementsAre(1000, 1, 1001, 1, 1002, 1, 1003, 1, 1004, 1, 1005, 1));
  EXPECT_EQ(batches[1].batch.last, 10u);
  ASSERT_OK_AND_ASSIGN(const auto made, reader->RunBatches(1, 0, 1 << 20));
  EXPECT_EQ(made.at(0).batch.last, 5u);
}

// One that the program which wrote it left damaged, and the next version is to save.
TEST_F(MigrationsTest, AFileOfVersion2IsSalvaged) {
  std::ifstream dump(STORE_VERSION2);
  const std::string script((std::istreambuf_iterator<char>(dump)), {});
  ASSERT_OK(OpenFile().Execute(script.c_str()));
  const TempDir scratch;
  const TempDir saved;
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged,
                       Salvage(path_, {scratch.path(), saved.path(), nullptr, nullptr}));
  EXPECT_EQ(salvaged.saved_rows(), 12u);  // six of each rank
  EXPECT_EQ(salvaged.lost_rows(), 0u);
  EXPECT_EQ(salvaged.damaged_records, 0u);
}

// The page that describes the format says which tables there are; this says that they are there.
TEST_F(MigrationsTest, MakeTheTablesOfTheFormat) {
  Database database = OpenFile();
  ASSERT_OK(Migrate(database, Migrations()));
  std::string tables;
  Query query =
      database.Select("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  while (query.Next()) absl::StrAppend(&tables, query.Text(0), " ");
  EXPECT_EQ(tables,
            "dead_letter delivery job removed_run removed_stream replay_batch run run_batch "
            "run_rewind run_shape run_update shape "
            "start stream stream_batch ");
}

}  // namespace
}  // namespace ranklog::storage
