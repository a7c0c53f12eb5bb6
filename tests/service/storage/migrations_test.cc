#include "service/storage/database/migrations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "service/storage/database/store_file.h"
#include "service/storage/recovery/salvage.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "tests/service/storage/builders.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::FileContent;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

TEST_F(MigrationsTest, BringFileToLatestVersion) {  // S40
  Database database = OpenFile();
  ASSERT_OK(Migrate(database, {first_}));
  EXPECT_THAT(database.SelectInteger("PRAGMA user_version"), IsOkAndHolds(1));
  EXPECT_THAT(database.SelectInteger("PRAGMA application_id"), IsOkAndHolds(kApplicationId));
  ASSERT_OK(Migrate(database, {first_, second_, third_}));
  ASSERT_OK(Migrate(database, {first_, second_, third_})) << "and then has nothing to do";
  EXPECT_THAT(database.SelectInteger("PRAGMA user_version"), IsOkAndHolds(3));
  EXPECT_THAT(database.SelectInteger("SELECT a FROM t"), IsOkAndHolds(8));
}

TEST_F(MigrationsTest, EachStartRunsOnlyNewMigrations) {  // S40
  Database database = OpenFile();
  ASSERT_OK(Migrate(database, {first_}));
  ASSERT_OK(Migrate(database, {first_, second_}));
  EXPECT_THAT(database.SelectInteger("PRAGMA user_version"), IsOkAndHolds(2));
  EXPECT_THAT(database.SelectInteger("SELECT a FROM t"), IsOkAndHolds(1));
  ASSERT_OK(Migrate(database, {first_, second_, third_}));
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

TEST_F(MigrationsTest, LeaveNewerVersionFileUnchanged) {  // S40
  {
    Database database = OpenFile();
    ASSERT_OK(Migrate(database, Migrations()));
    ASSERT_OK(
        database.Execute(absl::StrCat("PRAGMA user_version = ", Migrations().size() + 1).c_str()));
  }
  const std::string before = FileContent(path_);
  EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                     HasSubstr("a newer Ranklog wrote it")));
  EXPECT_THAT(StoreReader::Open(dir_.path()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                       HasSubstr("a newer Ranklog wrote it")));
  EXPECT_TRUE(FileContent(path_) == before);
}

// The bit of the version in the file's header flipped.
TEST_F(MigrationsTest, WrongVersionNumberIsDataLoss) {  // S22
  ASSERT_OK(Store::Open(dir_.path(), {}));
  for (const int64_t version : {0, 1 << 20, -1 - (1 << 30)}) {
    ASSERT_OK(OpenFile().Execute(absl::StrCat("PRAGMA user_version = ", version).c_str()));
    EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kDataLoss)) << version;
  }
}

TEST_F(MigrationsTest, LeavePrereleaseStoreAlone) {
  ASSERT_OK(Store::Open(dir_.path(), {}));
  for (const int version : {1, 2, 11}) {
    ASSERT_OK(OpenFile().Execute(
        absl::StrCat("PRAGMA application_id = 0x524B4C47; PRAGMA user_version = ", version)
            .c_str()));
    for (const absl::Status& status :
         {Store::Open(dir_.path(), {}).status(), StoreReader::Open(dir_.path()).status()}) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("from before its first release")));
    }
    EXPECT_THAT(OpenFile().SelectInteger("PRAGMA user_version"), IsOkAndHolds(version));
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

class FirstVersionTest : public MigrationsTest {
 protected:
  FirstVersionTest() {
    std::ifstream dump(STORE_VERSION1);
    const std::string script((std::istreambuf_iterator<char>(dump)), {});
    EXPECT_OK(OpenFile().Execute(script.c_str()));
  }
  absl::StatusOr<int64_t> Version() { return OpenFile().SelectInteger("PRAGMA user_version"); }
  // Appends a row to the stream of rank 0, and reads all rows.
  void GoOn(const Store::Options& options) {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(dir_.path(), options));
    ASSERT_OK(store->Begin());
    EXPECT_OK(store->DefineShape(1, 1, std::vector<std::string>{"loss", "shared"}))
        << "the same again";
    EXPECT_OK(store->Append(1, ranklog::testing::Dense(31, 1, 1, 2)));
    ASSERT_OK(store->Commit());
    EXPECT_THAT(OpenFile().SelectInteger("SELECT durable_seq FROM stream WHERE id = 1"),
                IsOkAndHolds(31));
  }
};

TEST_F(FirstVersionTest, IsMigratedReadableAndAppendable) {  // S40
  GoOn({});
  EXPECT_THAT(Version(), IsOkAndHolds(6));
  {
    ASSERT_OK_AND_ASSIGN(const auto reader, StoreReader::Open(dir_.path()));
    EXPECT_OK(reader->Check());
    EXPECT_THAT(reader->Shapes(1),
                IsOkAndHolds(ElementsAre(IsEmpty(), ElementsAre("loss", "shared"))));
    ASSERT_OK_AND_ASSIGN(const auto batches, reader->StreamBatches(1, 0, 1 << 20));
    EXPECT_EQ(batches.back().batch.last, 31u);
    EXPECT_EQ(batches.at(0).batch.blocks.at(0).values.at(0), 0);
    ASSERT_OK_AND_ASSIGN(const auto made, reader->RunBatches(1, 0, 1 << 20));
    EXPECT_EQ(made.back().batch.last, 29u);
    // Each rank's updates are items, numbered in their order.
    ASSERT_OK_AND_ASSIGN(const auto items, reader->Items(1, 0));
    ASSERT_THAT(items, SizeIs(4));
    EXPECT_EQ(items[0].stream, 1);
    EXPECT_EQ(items[0].item.seq, 1u);
    EXPECT_EQ(items[0].item.object["model"]["name"], "tiny");
    EXPECT_EQ(items[3].stream, 1);
    EXPECT_EQ(items[3].item.seq, 2u);
    EXPECT_EQ(items[3].item.metric.name, "loss");
    EXPECT_EQ(reader->Streams(1)->front().durable_item, 2u);
    ASSERT_OK_AND_ASSIGN(const model::Losses losses, reader->LossesOfAll());
    EXPECT_EQ(losses.values, 0u);
  }
}

// Does what the first program with a later version will do.
TEST_F(FirstVersionTest, MigratesToALaterVersion) {  // S40
  std::vector<const char*> next(Migrations().begin(), Migrations().end());
  next.push_back("ALTER TABLE stream ADD COLUMN made_up INTEGER NOT NULL DEFAULT 7");
  const auto later = static_cast<int64_t>(next.size());
  GoOn({.migrations = next});
  EXPECT_THAT(Version(), IsOkAndHolds(later));
  EXPECT_THAT(OpenFile().SelectInteger("SELECT made_up FROM stream"), IsOkAndHolds(7));
  EXPECT_THAT(Store::Open(dir_.path(), {}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                     HasSubstr("a newer Ranklog wrote it")));
  EXPECT_THAT(Version(), IsOkAndHolds(later));
}

// The program that wrote the store left it damaged, and the next version must salvage it.
TEST_F(FirstVersionTest, SalvageReadsFirstVersion) {
  const TempDir scratch;
  const TempDir saved;
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged,
                       Salvage(path_, {scratch.path(), saved.path(), nullptr, nullptr}));
  EXPECT_EQ(salvaged.saved_rows(), 212u);  // of all ranks
  EXPECT_EQ(salvaged.lost_rows(), 0u);
  EXPECT_EQ(salvaged.damaged_records, 0u);
}

// tables.md and rows.md list the tables; this checks that they exist.
TEST_F(MigrationsTest, MakeTheTablesOfTheFormat) {
  Database database = OpenFile();
  ASSERT_OK(Migrate(database, Migrations()));
  std::string tables;
  Query query =
      database.Select("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  while (query.Next()) absl::StrAppend(&tables, query.Text(0), " ");
  EXPECT_EQ(
      tables,
      "console dead_letter delivery hardware item job removed_run removed_stream replay_batch run "
      "run_batch run_rewind run_shape sample sample_shape shape start stream "
      "stream_batch ");
}

}  // namespace
}  // namespace ranklog::storage
