// The directories that ranks had their spools in, kept in a file of the state directory: a daemon
// that was told of other ones finds the rings of its predecessor's ranks.

#ifndef SERVICE_STORAGE_SPOOL_DIRS_H_
#define SERVICE_STORAGE_SPOOL_DIRS_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace ranklog::storage {

// STATE_DIR/spool_dirs has a path in each line. Without a file there is none.
std::vector<std::string> RememberedSpoolDirs(const std::string& state_dir);

// Thread-safe.
class SpoolDirs {
 public:
  // A job may have a directory of its own: a daemon that has seen more of them than this, since it
  // was started, forgets the oldest.
  static constexpr size_t kMost = 256;

  // Reads the file, and forgets the directories that are gone. `standard` are not remembered: each
  // daemon looks there.
  SpoolDirs(const std::string& state_dir, const std::vector<std::string>& standard);

  // Of a ring at `path`. Writes the file if its directory is new; on OK it survives a power cut.
  absl::Status Remember(absl::string_view path) ABSL_LOCKS_EXCLUDED(mutex_);

  // The remembered ones.
  std::vector<std::string> All() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Write() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string file_;
  std::vector<std::string> standard_;
  mutable absl::Mutex mutex_;
  std::vector<std::string> dirs_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_SPOOL_DIRS_H_
