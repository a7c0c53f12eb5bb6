// The spool directories of ranks, remembered in a file of the state directory. So a daemon with
// other settings still finds the rings of its predecessor's ranks.

#ifndef SERVICE_STORAGE_DIRECTORIES_SPOOL_DIRS_H_
#define SERVICE_STORAGE_DIRECTORIES_SPOOL_DIRS_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace ranklog::storage {

// The paths in STATE_DIR/spool_dirs, one per line. Empty if the file does not exist.
std::vector<std::string> RememberedSpoolDirs(const std::string& state_dir);

// Thread-safe.
class SpoolDirs {
 public:
  // A job may have a directory of its own. If there are more than this, one that does not exist is
  // forgotten, or else the oldest.
  static constexpr size_t kMost = 256;

  // Reads the file. Directories that do not exist stay, because their disk may be mounted later.
  // `standard` directories are not remembered, because each daemon looks there.
  SpoolDirs(const std::string& state_dir, const std::vector<std::string>& standard);

  // Remembers the directory of a ring at `path`. Writes the file if the directory is new. On OK it
  // survives a power cut.
  absl::Status Remember(absl::string_view path) ABSL_LOCKS_EXCLUDED(mutex_);

  // All remembered directories.
  std::vector<std::string> All() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Write() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string file_;
  std::vector<std::string> standard_;
  mutable absl::Mutex mutex_;
  std::vector<std::string> dirs_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DIRECTORIES_SPOOL_DIRS_H_
