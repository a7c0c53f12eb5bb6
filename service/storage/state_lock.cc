#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/file_system.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

constexpr char kLockFile[] = "/lock";

// A lock of the open file description, not of the process: it is tested without being taken
// (F_OFD_GETLK), and closing another descriptor of the file does not drop it.
struct flock WholeFile() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

int64_t PidIn(int fd) {
  char text[32] = {};
  if (pread(fd, text, sizeof(text) - 1, 0) <= 0) return 0;
  return std::strtoll(text, nullptr, 10);
}

absl::Status WritePid(int fd, const std::string& path) {
  const std::string text = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) == 0 &&
      pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  const std::string message = absl::StrCat("write ", path, ": ", strerror(errno));
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  return full ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

}  // namespace

absl::StatusOr<StateLock> StateLock::Acquire(const std::string& state_dir) {
  RETURN_IF_ERROR(MakeDirectory(state_dir));
  RETURN_IF_ERROR(CheckLocal(state_dir));  // before its locks are relied on
  const std::string path = state_dir + kLockFile;
  RETURN_IF_ERROR(MakeFile(path));
  StateLock held(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (held.fd_ < 0) {
    return absl::PermissionDeniedError(absl::StrCat("open ", path, ": ", strerror(errno)));
  }
  struct flock lock = WholeFile();
  if (fcntl(held.fd_, F_OFD_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) {
      return absl::InternalError(absl::StrCat("lock ", path, ": ", strerror(errno)));
    }
    return absl::AlreadyExistsError(
        absl::StrCat(state_dir, " is in use by process ", PidIn(held.fd_), ", which holds ", path));
  }
  RETURN_IF_ERROR(WritePid(held.fd_, path));
  return held;
}

int64_t StateLock::Holder(const std::string& state_dir) {
  const int fd =
      open((state_dir + kLockFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return 0;
  struct flock lock = WholeFile();
  const bool held = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  const int64_t pid = held ? PidIn(fd) : 0;
  close(fd);
  return pid;
}

StateLock::~StateLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace ranklog::storage
