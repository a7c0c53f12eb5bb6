#include "trainer/base/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ranklog::trainer {

absl::StatusOr<LockFile> LockFile::Open(std::string directory) {
  const std::string path = absl::StrCat(directory, "/.lock");
  // NFS locks only files that are open for writing. So whoever may write to the directory may write
  // to the file. A file that is readable only is enough on a local disk.
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  struct stat status {};
  if (fd >= 0 && stat(directory.c_str(), &status) == 0) {
    static_cast<void>(fchmod(fd, status.st_mode & 0666));
  }
  if (fd < 0 && errno == EEXIST) fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return LockFile(std::move(directory), fd);
}

LockFile::LockFile(std::string directory, int fd) : directory_(std::move(directory)), fd_(fd) {}
LockFile::LockFile(LockFile&& other) noexcept
    : directory_(other.directory_),
      fd_(std::exchange(other.fd_, -1)),
      of_directory_(other.of_directory_) {}

LockFile::~LockFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LockFile::Lock(int operation) {
  while (flock(fd_, operation) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EWOULDBLOCK) {
      return absl::UnavailableError(absl::StrCat("another process has locked ", directory_));
    }
    const bool no_locks =
        error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
    const int directory = of_directory_ || !no_locks
                              ? -1
                              : open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot lock ", directory_, ": ", std::strerror(error)));
    }
    close(std::exchange(fd_, directory));
    of_directory_ = true;
  }
  return absl::OkStatus();
}

absl::Status LockFile::TryTake() { return Lock(LOCK_EX | LOCK_NB); }
absl::Status LockFile::Take() { return Lock(LOCK_EX); }

}  // namespace ranklog::trainer
