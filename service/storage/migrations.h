// The versions of the store's file. PRAGMA application_id says that a file is ours, PRAGMA
// user_version which version it has: the number of migrations that made it.

#ifndef SERVICE_STORAGE_MIGRATIONS_H_
#define SERVICE_STORAGE_MIGRATIONS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/storage/sqlite.h"

namespace ranklog::storage {

inline constexpr int64_t kApplicationId = 0x524B4C31;  // "RKL1"

// The scripts that make each version from the one before, the first from an empty file. One that
// was released never changes: a change is a new script.
absl::Span<const char* const> Migrations();

// Brings a file to version migrations.size(), in one transaction: all of it, or nothing.
//   kFailedPrecondition  a newer version wrote it, or another program
//   kDataLoss            it is damaged (its tables are not those of its version, say), or is no
//                        SQLite database
absl::Status Migrate(Database& database, absl::Span<const char* const> migrations);

// kDataLoss if the tables and their columns are not those that `migrations` make.
absl::Status CheckTables(Database& database, absl::Span<const char* const> migrations);

// Whether a reader of version `version` can read the file.
//   kNotFound            it is empty: nothing was ever stored
//   kFailedPrecondition  a newer or an older version wrote it, or another program
//   kDataLoss            as above
absl::Status CheckReadable(Database& database, int64_t version);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_MIGRATIONS_H_
