// The files that ranks staged for uploads: in STATE_DIR/content, with names by v1::IsStaged().

#ifndef SERVICE_STORAGE_STAGED_FILES_H_
#define SERVICE_STORAGE_STAGED_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/storage/store_reader.h"

namespace ranklog::storage {

// The directory of staged files and of large items.
std::string ContentDirOf(absl::string_view state_dir);

// The store does not know a file until its rank's ring was read. One that stays unknown for longer is
// left over: its rank died while it was copied, or its run was removed.
inline constexpr absl::Duration kUnknownKept = absl::Hours(24 * 7);

// Removes the staged files that all trackers of their runs have, and those that are left over. A run
// that stays on this node keeps its files. Returns the number of removed files.
absl::StatusOr<int> RemoveUnneededFiles(const std::string& content_dir, StoreReader& reader,
                                        absl::Time now);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_STAGED_FILES_H_
