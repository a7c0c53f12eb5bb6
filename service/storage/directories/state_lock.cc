#include "service/storage/directories/state_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/storage/directories/file_system.h"

namespace ranklog::storage {
namespace {

constexpr char kLockFile[] = "/lock";
// The wait for a directory that is locked while its file is not. systemd-tmpfiles locks it briefly
// while it scans it. A daemon whose file was removed makes it again within a second.
constexpr absl::Duration kDirectoryWait = absl::Seconds(3);
constexpr absl::Duration kDirectoryPoll = absl::Milliseconds(50);

// The holder locks the file up to this offset. Processes that wait lock the byte after it.
constexpr off_t kWishAt = 1 << 20;

// A lock of the open file description, not of the process: F_OFD_GETLK tests it without taking it,
// and closing another descriptor of the file does not release it.
struct flock HolderLock() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = kWishAt;
  return lock;
}

// F_RDLCK to hold the lock, which several processes may; F_WRLCK to test it.
struct flock WishLock(short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kWishAt;
  lock.l_len = 1;
  return lock;
}

int OpenLockFile(const std::string& state_dir) {
  return open((state_dir + kLockFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
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
  const std::string message = absl::StrCat("cannot write ", path, ": ", strerror(errno));
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  return full ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

absl::Status InUse(const std::string& dir, int64_t pid) {
  return absl::AlreadyExistsError(absl::StrCat(
      dir, " is in use by process ", pid, ", which holds ", dir, kLockFile,
      " (a daemon, or `ranklog sync`); to end a daemon, run: ranklog stop --state-dir ", dir));
}

}  // namespace

absl::StatusOr<StateLock> StateLock::Acquire(const std::string& state_dir) {
  RETURN_IF_ERROR(MakeDirectory(state_dir));
  RETURN_IF_ERROR(CheckLocal(state_dir));  // before we rely on its locks
  StateLock held(state_dir);
  RETURN_IF_ERROR(held.LockDirectory());
  RETURN_IF_ERROR(held.LockFile());
  return held;
}

absl::Status StateLock::LockDirectory() {
  dir_fd_ = open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir_fd_ < 0) {
    return absl::PermissionDeniedError(absl::StrCat("cannot open ", dir_, ": ", strerror(errno)));
  }
  const absl::Time deadline = SteadyNow() + kDirectoryWait;
  while (flock(dir_fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) break;  // not every file system supports it; then use only the file's
    const int64_t pid = Holder(dir_);
    if (pid != 0) return InUse(dir_, pid);
    if (SteadyNow() > deadline) {
      return absl::AlreadyExistsError(
          absl::StrCat(dir_,
                       " is in use by another process, which holds a lock of the directory; "
                       "to find it, run: lslocks -u | grep ",
                       dir_));
    }
    absl::SleepFor(kDirectoryPoll);
  }
  return absl::OkStatus();
}

absl::Status StateLock::LockFile() {
  const std::string path = dir_ + kLockFile;
  RETURN_IF_ERROR(MakeFile(path));
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    return absl::PermissionDeniedError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  absl::Status status;
  struct flock lock = HolderLock();
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
    status = WritePid(fd, path);
  } else if (errno == EAGAIN || errno == EACCES) {
    status = InUse(dir_, PidIn(fd));
  } else {
    status = absl::InternalError(absl::StrCat("cannot lock ", path, ": ", strerror(errno)));
  }
  if (!status.ok()) {
    close(fd);
    return status;
  }
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  file_ = FileIdentity(path);
  return absl::OkStatus();
}

absl::StatusOr<bool> StateLock::Keep() {
  if (file_.InPlace()) return false;
  RETURN_IF_ERROR(LockFile());
  return true;
}

int64_t StateLock::Holder(const std::string& state_dir) {
  const int fd = OpenLockFile(state_dir);
  if (fd < 0) return 0;
  struct flock lock = HolderLock();
  const bool held = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  const int64_t pid = held ? PidIn(fd) : 0;
  close(fd);
  return pid;
}

StateLock::~StateLock() {
  if (dir_fd_ >= 0) close(dir_fd_);  // first: if the file is free, the directory must be free too
  if (fd_ >= 0) close(fd_);
}

StateRequest::StateRequest(const std::string& state_dir) : fd_(OpenLockFile(state_dir)) {
  struct flock lock = WishLock(F_RDLCK);
  if (fd_ >= 0) fcntl(fd_, F_OFD_SETLK, &lock);
}

StateRequest::~StateRequest() {
  if (fd_ >= 0) close(fd_);
}

bool StateRequest::Any(const std::string& state_dir) {
  const int fd = OpenLockFile(state_dir);
  if (fd < 0) return false;
  struct flock lock = WishLock(F_WRLCK);
  const bool any = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return any;
}

}  // namespace ranklog::storage
