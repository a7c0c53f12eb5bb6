#ifndef TRAINER_BASE_LOCK_FILE_H_
#define TRAINER_BASE_LOCK_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ranklog::trainer {

// The lock of a directory, which one process holds at a time. Also between nodes: it is an flock()
// of the file `.lock` in the directory, and a network file system grants an flock() of a directory
// on each node by itself. If the file cannot be locked (NFS without a lock manager, Lustre without
// `-o flock`), the lock is that of the directory. The file stays, because a process may wait for it.
//
// Not thread-safe. Errors name the directory or the file.
class LockFile {
 public:
  // Creates the file. The lock is not taken yet.
  static absl::StatusOr<LockFile> Open(std::string directory);
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();  // releases the lock

  //   kUnavailable         another process holds the lock
  //   kFailedPrecondition  the file system has no locks
  absl::Status TryTake();
  // The same, but waits for the other process.
  absl::Status Take();

 private:
  LockFile(std::string directory, int fd);
  absl::Status Lock(int operation);

  const std::string directory_;
  int fd_;  // -1: moved from
  bool of_directory_ = false;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_LOCK_FILE_H_
