#include "client/base/private_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/base/descriptor.h"

namespace ranklog::internal {

absl::Status Prepare(const PrivateDir& dir) {
  // The checks below find the result of mkdir(). The umask may have removed our own rights.
  if (dir.create && mkdir(dir.path.c_str(), 0700) == 0) chmod(dir.path.c_str(), 0700);
  const int fd = open(dir.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const int error = errno;
  struct stat info;
  const bool ours = fd >= 0 && fstat(fd, &info) == 0 && v1::IsOwnDirectory(info, 022);
  if (fd >= 0) close(fd);
  if (ours) return absl::OkStatus();
  std::string why = v1::UnusableReason(dir);
  if (why.empty()) {
    why = absl::StrCat("cannot open the directory ", dir.path, ": ", strerror(error));
  }
  return fd < 0 && error == ENOENT ? absl::NotFoundError(why) : absl::PermissionDeniedError(why);
}

absl::StatusOr<int> OpenOwnFile(const std::string& path, int flags) {
  const int fd = AboveStandard(
      open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600));
  if (fd < 0) {
    return absl::PermissionDeniedError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  }
  struct stat info;
  if (fstat(fd, &info) == 0 && v1::IsOwnFile(info)) {
    // Undoes the umask: other processes open the file too.
    if ((info.st_mode & 0600) != 0600) fchmod(fd, 0600);
    return fd;
  }
  close(fd);
  return absl::PermissionDeniedError(
      absl::StrCat(path, " is not a private regular file of this user; remove it"));
}

}  // namespace ranklog::internal
