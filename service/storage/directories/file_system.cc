#include "service/storage/directories/file_system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ranklog/v1/places.h"
#include "service/base/environment.h"
#include "service/base/ownership.h"
#include "service/base/status_macros.h"

namespace ranklog::storage {
namespace {

// The mount types after "fuse." of programs that keep the files on another machine. Programs that
// present a local disk in another layout (bindfs, mergerfs, fuse-overlayfs, ...) are not in the
// list: such a disk may be the only one that a user has for the store.
constexpr absl::string_view kNetworkFuse[] = {
    "sshfs",     "glusterfs", "ceph-fuse", "ceph",     "mfs",           "moosefs",
    "lizardfs",  "juicefs",   "JuiceFS",   "s3fs",     "goofys",        "gcsfuse",
    "rclone",    "davfs",     "curlftpfs", "mount-s3", "mountpoint-s3", "blobfuse",
    "blobfuse2", "seaweedfs", "hdfs",      "fuse_dfs", "alluxio-fuse",
};

absl::Status ErrnoStatus(int error, const std::string& doing) {
  const std::string message = absl::StrCat("cannot ", doing, ": ", strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return absl::ResourceExhaustedError(message);
  return absl::PermissionDeniedError(message);
}

absl::Status BelongsToAnother(const std::string& path, uid_t owner) {
  return absl::PermissionDeniedError(
      absl::StrCat(path, " belongs to user ", owner, ", not to ", geteuid(),
                   "; choose a directory of your own with --state-dir"));
}

absl::Status CannotCreate(int error, const std::string& directory) {
  const absl::Status status = ErrnoStatus(error, "create " + directory);
  if (!absl::IsPermissionDenied(status)) return status;  // a full disk
  return absl::PermissionDeniedError(absl::StrCat(
      status.message(), "; choose another directory with --state-dir or RANKLOG_STATE_DIR"));
}

// Makes the directory and its missing parents. std::filesystem would make the parents writable for
// others.
absl::Status MakeMissing(const std::filesystem::path& directory) {
  if (mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  const std::filesystem::path parent = directory.parent_path();
  if (errno != ENOENT || parent.empty() || parent == directory) {
    return CannotCreate(errno, directory.string());
  }
  RETURN_IF_ERROR(MakeMissing(parent));
  if (mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return CannotCreate(errno, directory.string());
}

// The number of names in its directory that refer to this file.
nlink_t NamesBeside(const std::string& path, const struct stat& info) {
  nlink_t names = 0;
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat beside {};
    if (lstat(entry->path().c_str(), &beside) != 0) continue;
    if (beside.st_dev == info.st_dev && beside.st_ino == info.st_ino) ++names;
  }
  return names;
}

absl::Status CheckKind(const std::string& path, const struct stat& info) {
  if (S_ISLNK(info.st_mode)) {
    return absl::PermissionDeniedError(
        path + " is a symbolic link, which is not followed; replace it with the file itself");
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::PermissionDeniedError(
        path + " is not a regular file; remove it, or choose another directory with --state-dir");
  }
  // If power failed while a store was set aside, the file has two names here.
  if (info.st_nlink > 1 && info.st_nlink > NamesBeside(path, info)) {
    return absl::PermissionDeniedError(
        path + " has a hard link in another directory; replace it with a copy");
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view NetworkFuseName(absl::string_view mounts, dev_t device) {
  const std::string id = absl::StrCat(major(device), ":", minor(device));
  for (const absl::string_view line : absl::StrSplit(mounts, '\n')) {
    // "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG]... - TYPE SOURCE OPTIONS"
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() < 3 || fields[2] != id) continue;
    const auto separator = std::find(fields.begin(), fields.end(), "-");
    if (fields.end() - separator < 2) continue;
    absl::string_view type = separator[1];
    if (!absl::ConsumePrefix(&type, "fuse.")) continue;
    for (const absl::string_view name : kNetworkFuse) {
      if (type == name) return name;
    }
  }
  return "";
}

absl::Status CheckLocal(const std::string& directory) {
  struct statfs system;
  struct stat info;
  if (statfs(directory.c_str(), &system) != 0 || stat(directory.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "stat " + directory);
  }
  const auto type = static_cast<uint32_t>(system.f_type);
  absl::string_view name = v1::NetworkFileSystemName(type);
  if (type == v1::kFuseType) {
    std::ostringstream mounts;
    mounts << std::ifstream("/proc/self/mountinfo").rdbuf();
    name = NetworkFuseName(mounts.str(), info.st_dev);
  }
  if (name.empty()) return absl::OkStatus();
  if (EnvironmentVariable(kAllowNetworkFileSystem) == "1") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(directory, " is on ", name,
                   ", a network file system, which can damage or stall the store; choose a "
                   "directory on a disk of this node with --state-dir or RANKLOG_STATE_DIR (",
                   kAllowNetworkFileSystem, "=1 allows this one)"));
}

absl::string_view VolatileFileSystemName(const std::string& directory) {
  struct statfs system;
  if (statfs(directory.c_str(), &system) != 0) return "";
  switch (static_cast<uint32_t>(system.f_type)) {
    case 0x01021994:
      return "tmpfs";
    case 0x858458F6:
      return "ramfs";
    case 0x794C7630:
      return "overlay";
    default:
      return "";
  }
}

absl::Status MakeDirectory(const std::string& directory) {
  std::filesystem::path path = directory;
  // With a slash at the end, lstat() would follow a link.
  if (!path.has_filename()) path = path.parent_path();
  RETURN_IF_ERROR(MakeMissing(path));
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat " + directory);
  // v1::IsOwnDirectory() refuses links. A store may be behind one, on a larger disk; and the user
  // needs to know which rule is broken.
  if (S_ISLNK(info.st_mode)) {
    if (!IsOursOrRoots(info.st_uid)) return BelongsToAnother("the link " + directory, info.st_uid);
    if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat " + directory);
  }
  if (!S_ISDIR(info.st_mode)) return ErrnoStatus(ENOTDIR, "use " + directory);
  if (info.st_uid != geteuid()) return BelongsToAnother(directory, info.st_uid);
  if ((info.st_mode & S_ISVTX) != 0 && (info.st_mode & 022) != 0) {  // such as /tmp
    return absl::PermissionDeniedError(absl::StrCat(
        directory, " is shared with other users; choose a directory of your own with --state-dir"));
  }
  if ((info.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(directory, " is writable by other users; run: chmod go-w ", directory));
  }
  return absl::OkStatus();
}

absl::Status MakeFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 && errno == EEXIST) return CheckFile(path);
  if (fd < 0) return ErrnoStatus(errno, "create " + path);
  close(fd);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", directory));
  const bool synced = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  return synced ? absl::OkStatus()
                : absl::ErrnoToStatus(error, absl::StrCat("cannot sync ", directory));
}

absl::Status CheckFile(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "stat " + path);
  }
  RETURN_IF_ERROR(CheckKind(path, info));
  if (info.st_uid != geteuid()) return BelongsToAnother(path, info.st_uid);
  if ((info.st_mode & 077) != 0 && chmod(path.c_str(), 0600) != 0) {
    return ErrnoStatus(errno, "set the mode of " + path);
  }
  return absl::OkStatus();
}

absl::Status CheckReadFile(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "stat " + path);
  }
  return CheckKind(path, info);
}

}  // namespace ranklog::storage
