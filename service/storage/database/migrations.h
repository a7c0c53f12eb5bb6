// The versions of the store's file. PRAGMA application_id marks a file as ours. PRAGMA user_version
// is its version: the number of migrations that made it.

#ifndef SERVICE_STORAGE_DATABASE_MIGRATIONS_H_
#define SERVICE_STORAGE_DATABASE_MIGRATIONS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/storage/database/sqlite.h"

namespace ranklog::storage {

inline constexpr int64_t kApplicationId = 0x524B4C31;  // "RKL1"

// The scripts that make each version from the previous one; the first starts from an empty file. A
// released script never changes: a change of the schema is a new script.
absl::Span<const char* const> Migrations();

// Migrates a file to version migrations.size() in one transaction: completely, or not at all.
//   kFailedPrecondition  a newer version or another program wrote it
//   kDataLoss            it is damaged (for example, its tables are not those of its version), or
//                        is not an SQLite database
absl::Status Migrate(Database& database, absl::Span<const char* const> migrations);

// kDataLoss if the tables and their columns are not those that `migrations` make.
absl::Status CheckTables(Database& database, absl::Span<const char* const> migrations);

// Whether a reader of version `version` can read the file.
//   kNotFound            it is empty: nothing was ever stored
//   kFailedPrecondition  a newer version, an older version or another program wrote it
//   kDataLoss            as above
absl::Status CheckReadable(Database& database, int64_t version);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DATABASE_MIGRATIONS_H_
