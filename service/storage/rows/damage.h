// Detects a damaged store, and renames it so that its name shows the damage.

#ifndef SERVICE_STORAGE_ROWS_DAMAGE_H_
#define SERVICE_STORAGE_ROWS_DAMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/storage/database/migrations.h"
#include "service/storage/database/sqlite.h"

namespace ranklog::storage {

// kDataLoss if one of these holds:
//   - the tables are not those of our schema
//   - a count contradicts the rows that it counts
//   - a job's settings or a delivery's cursor cannot be read
//   - SQLite's own check finds an error; done only for a file up to 32 MiB (some 50 ms)
absl::Status CheckForDamage(Database& database,
                            absl::Span<const char* const> migrations = Migrations());

// kDataLoss if SQLite would read the rest of the file as an empty database: only a few bytes, or
// only the write-ahead log, are left.
absl::Status CheckForTruncation(const std::string& path);

// Renames `state_dir`/ranklog.db and its log to ranklog.db.damaged-TIME, and returns that path.
// After a power cut during the call, the files have both names. The caller must hold StateLock.
//   kInternal  the file system refuses
absl::StatusOr<std::string> SetAside(const std::string& state_dir, absl::Time now);

// The paths that SetAside() returned, oldest first.
std::vector<std::string> SetAsideStores(const std::string& state_dir);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_ROWS_DAMAGE_H_
