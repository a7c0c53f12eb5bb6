#include "trainer/base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ranklog::trainer {

absl::StatusOr<LockFile> LockFile::Open(const std::string& directory) {
  std::string path = absl::StrCat(directory, "/.lock");
  // NFS locks only files that are open for writing. The file of another user may be readable only,
  // which is enough on a local disk.
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EACCES) fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return LockFile(std::move(path), fd);
}

LockFile::LockFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
LockFile::LockFile(LockFile&& other) noexcept
    : path_(other.path_), fd_(std::exchange(other.fd_, -1)) {}

LockFile::~LockFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LockFile::Lock(int operation) {
  while (flock(fd_, operation) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    return absl::ErrnoToStatus(error, absl::StrCat("cannot lock ", path_));
  }
  return absl::OkStatus();
}

absl::Status LockFile::TryTake() { return Lock(LOCK_EX | LOCK_NB); }
absl::Status LockFile::Take() { return Lock(LOCK_EX); }

}  // namespace ranklog::trainer
