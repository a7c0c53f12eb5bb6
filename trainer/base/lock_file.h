#ifndef TRAINER_BASE_LOCK_FILE_H_
#define TRAINER_BASE_LOCK_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ranklog::trainer {

// The lock of a directory, which one process holds at a time. Also between nodes: it is an flock()
// of the file `.lock` in the directory, and a network file system grants an flock() of a directory
// on each node by itself. The file stays, because a process may wait for its lock.
//
// Not thread-safe. Errors are from errno, and name the file.
class LockFile {
 public:
  // Creates the file. The lock is not taken yet.
  static absl::StatusOr<LockFile> Open(const std::string& directory);
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();  // releases the lock

  //   kUnavailable  another process holds the lock
  //   others        the file system has no locks
  absl::Status TryTake();
  // The same, but waits for the other process.
  absl::Status Take();

 private:
  LockFile(std::string path, int fd);
  absl::Status Lock(int operation);

  const std::string path_;
  int fd_;  // -1: moved from
};

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_LOCK_FILE_H_
