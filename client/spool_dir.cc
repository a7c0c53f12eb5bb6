#include "client/spool_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace ranklog::internal {
namespace {

bool IsNetworkFileSystem(const char* path) {
  struct statfs info;
  if (statfs(path, &info) != 0) return true;
  switch (static_cast<uint32_t>(info.f_type)) {
    case 0x6969:      // NFS
    case 0x517B:      // SMB
    case 0xFF534D42:  // CIFS
    case 0xFE534D42:  // SMB2
    case 0x65735546:  // FUSE
    case 0x0BD00BD0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x00C36400:  // Ceph
    case 0x19830326:  // BeeGFS
    case 0x01021997:  // 9P
    case 0x5346414F:  // AFS
      return true;
    default:
      return false;
  }
}

// What systemd promises of $XDG_RUNTIME_DIR; a login node's does not hold in a job.
bool IsOwnRuntimeDir(const char* path) {
  struct stat info;
  return path != nullptr && path[0] == '/' && lstat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == geteuid() && (info.st_mode & 077) == 0 && !IsNetworkFileSystem(path);
}

}  // namespace

std::vector<PrivateDir> StandardDirs() {
  const std::string uid = std::to_string(geteuid());
  std::vector<PrivateDir> dirs = {{"/run/ranklog/" + uid, /*create=*/false}};
  const char* runtime_dir = getenv("XDG_RUNTIME_DIR");
  if (IsOwnRuntimeDir(runtime_dir)) {
    dirs.push_back({std::string(runtime_dir) + "/ranklog", /*create=*/true});
  }
  dirs.push_back({"/dev/shm/ranklog-" + uid, /*create=*/true});
  return dirs;
}

absl::Status Prepare(const PrivateDir& dir) {
  if (dir.create) mkdir(dir.path.c_str(), 0700);  // what it came to, the checks below tell
  const int fd = open(dir.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    const std::string message = absl::StrCat("open directory ", dir.path, ": ", strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
  }
  struct stat info;
  const bool ours = fstat(fd, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 022) == 0;
  close(fd);
  if (ours) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the directory ", dir.path, " is not this user's alone"));
}

absl::StatusOr<int> OpenOwnFile(const std::string& path, int flags) {
  const int fd =
      open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::PermissionDeniedError(absl::StrCat("open ", path, ": ", strerror(errno)));
  }
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
      info.st_nlink <= 1) {
    return fd;
  }
  close(fd);
  return absl::PermissionDeniedError(absl::StrCat(path, " is no file of this user's alone"));
}

}  // namespace ranklog::internal
