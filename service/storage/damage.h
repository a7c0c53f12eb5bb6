// What a damaged store is known by, and where it goes: out of the way, under a name that says so.

#ifndef SERVICE_STORAGE_DAMAGE_H_
#define SERVICE_STORAGE_DAMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/storage/migrations.h"
#include "service/storage/sqlite.h"

namespace ranklog::storage {

// kDataLoss if the tables are not those of our schema, a count contradicts the rows it counts, the
// settings of a job or the place of a delivery cannot be read, or, in a file up to 32 MiB (some
// 50 ms), anything that SQLite can tell is wrong.
absl::Status CheckForDamage(Database& database,
                            absl::Span<const char* const> migrations = Migrations());

// kDataLoss if so little of the file is left that SQLite would take it for an empty one: some
// bytes, or nothing but the log of writes.
absl::Status CheckForStump(const std::string& path);

// Gives `state_dir`/ranklog.db and its log the name ranklog.db.damaged-TIME, and returns that path.
// After a power cut in the middle the files have both names. Whoever calls holds StateLock.
//   kInternal  the file system refuses
absl::StatusOr<std::string> SetAside(const std::string& state_dir, absl::Time now);

// The paths that SetAside() gave, oldest first.
std::vector<std::string> SetAsideStores(const std::string& state_dir);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DAMAGE_H_
