// The lock of a state directory.

#ifndef SERVICE_STORAGE_DIRECTORIES_STATE_LOCK_H_
#define SERVICE_STORAGE_DIRECTORIES_STATE_LOCK_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "service/base/file_identity.h"

namespace ranklog::storage {

// The lock of a state directory: one daemon (or one `ranklog sync`) holds it. It consists of two
// locks. One is on the file `lock`, which contains the pid. The other is a flock(2) of the
// directory itself. Nobody can remove the directory while the store is in it. systemd-tmpfiles
// removes old files of /var/tmp, but skips a directory with such a lock (tmpfiles.d(5)).
class StateLock {
 public:
  // Creates the directory if it is missing (0700).
  //   kAlreadyExists       another process holds it; the message has its pid. Returned after 3 s if
  //                        the directory is locked and the file is not
  //   kPermissionDenied    the directory cannot be made or written
  //   kFailedPrecondition  it is on a network file system (CheckLocal in file_system.h)
  static absl::StatusOr<StateLock> Acquire(const std::string& state_dir);
  // The pid of the holder, or 0. Does not take the lock.
  static int64_t Holder(const std::string& state_dir);

  // Makes and locks the file again if it was removed or replaced, and then returns true. Call it
  // from time to time, because Holder() uses the file.
  //   kAlreadyExists       another process holds the new file
  absl::StatusOr<bool> Keep();

  StateLock(StateLock&& other) noexcept
      : dir_(std::move(other.dir_)),
        file_(std::move(other.file_)),
        dir_fd_(std::exchange(other.dir_fd_, -1)),
        fd_(std::exchange(other.fd_, -1)) {}
  StateLock& operator=(StateLock&&) = delete;
  ~StateLock();

 private:
  explicit StateLock(std::string dir) : dir_(std::move(dir)) {}
  absl::Status LockDirectory();
  absl::Status LockFile();

  std::string dir_;
  FileIdentity file_;  // of fd_
  int dir_fd_ = -1;
  int fd_ = -1;
};

// During its lifetime, signals that a daemon waits for the state directory. `ranklog sync`, which
// may hold the directory for hours, checks for it and releases the directory. Without effect if its
// lock cannot be taken.
class StateRequest {
 public:
  explicit StateRequest(const std::string& state_dir);
  ~StateRequest();
  StateRequest(const StateRequest&) = delete;
  StateRequest& operator=(const StateRequest&) = delete;

  // Whether any process waits. Does not take the lock.
  static bool Any(const std::string& state_dir);

 private:
  int fd_ = -1;
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DIRECTORIES_STATE_LOCK_H_
