#include "service/storage/database/sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::HasSubstr;

class DatabaseTest : public ::testing::Test {
 protected:
  Database Open(Database::Mode mode = Database::Mode::kReadWrite) {
    std::ofstream(path_, std::ios::app).flush();
    auto database = Database::Open(path_, mode, nullptr);
    EXPECT_OK(database);
    return *std::move(database);
  }
  TempDir dir_;
  const std::string path_ = dir_.File("test.db");
};

TEST_F(DatabaseTest, BindsEachParameterType) {
  Database database = Open();
  ASSERT_OK(database.Execute("CREATE TABLE t(i INTEGER, t TEXT, b BLOB) STRICT"));
  const std::string bytes("a\0b", 3);
  ASSERT_OK(database.Run("INSERT INTO t VALUES(?1, ?2, ?3)",
                         {~uint64_t{0}, bytes, Parameter::Blob(absl::string_view())}));
  Query query = database.Select("SELECT i, t, b, length(b) FROM t WHERE i = ?1", {-1});
  ASSERT_TRUE(query.Next());
  EXPECT_EQ(query.Unsigned(0), ~uint64_t{0});
  EXPECT_EQ(query.Text(1), bytes);
  EXPECT_EQ(query.Bytes(2), "");
  EXPECT_FALSE(query.Next());
  EXPECT_OK(query.status());
}

TEST_F(DatabaseTest, QueryMayBeAbandonedEarly) {
  Database database = Open();
  ASSERT_OK(database.Execute("CREATE TABLE t(i); INSERT INTO t VALUES(1), (2)"));
  for (int repetition = 0; repetition < 2; ++repetition) {
    Query query = database.Select("SELECT i FROM t");
    EXPECT_TRUE(query.Next());
    EXPECT_EQ(query.Integer(0), 1);
  }
  EXPECT_OK(database.Execute("DROP TABLE t")) << "no read is left open";
}

TEST_F(DatabaseTest, ErrorNamesStatementAndReason) {
  Database database = Open();
  EXPECT_THAT(database.Run("SELECT * FROM absent"),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("test.db: SELECT * FROM absent: no such table")));
  EXPECT_THAT(database.SelectInteger("SELECT 1 WHERE 0"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(database.SelectInteger("SELECT 7"), IsOkAndHolds(7));
}

TEST_F(DatabaseTest, MapsErrorsToStatusCodes) {
  Database database = Open();
  ASSERT_OK(database.Execute("CREATE TABLE t(i)"));
  Database second = Open();
  sqlite3_busy_timeout(second.handle(), 0);
  ASSERT_OK(database.Execute("BEGIN IMMEDIATE"));
  EXPECT_THAT(second.Execute("BEGIN IMMEDIATE"), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_OK(database.Execute("COMMIT"));

  Database reader = Open(Database::Mode::kReadOnly);
  EXPECT_THAT(reader.Execute("INSERT INTO t VALUES(1)"),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(Database::Open(dir_.File("absent.db"), Database::Mode::kReadWrite, nullptr),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace ranklog::storage
