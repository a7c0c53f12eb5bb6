// The directories for Ranklog's sockets and spools on a node. Ranks, the daemon and the CLI all use
// this list.

#ifndef RANKLOG_V1_PLACES_H_
#define RANKLOG_V1_PLACES_H_

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ranklog/v1/environment.h"

namespace ranklog::v1 {

inline constexpr char kSocketFile[] = "ranklogd.sock";
// The bytes of the longest path of a socket: the kernel's limit, without the zero byte at the end.
inline constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;
// The messages of a daemon that a rank started, in a file beside the socket.
inline constexpr char kDaemonLogFile[] = "ranklogd.log";
// The store, in the state directory. The names of its log and of damaged stores begin with it.
inline constexpr char kStoreFile[] = "ranklog.db";
// The lock of a rank that starts a daemon, beside the socket.
inline constexpr char kStartLockFile[] = "start.lock";
// Ring.address of a rank that looks for its daemon in the standard places.
inline constexpr char kDefaultAddress[] = "default";

// The path of a directory without slashes at its end, with which lstat() would follow a link.
inline std::string WithoutSlashAtEnd(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// A directory that Ranklog may use if it belongs to this user alone.
struct PrivateDir {
  PrivateDir() = default;
  PrivateDir(std::string at, bool create)
      : path(WithoutSlashAtEnd(std::move(at))), create(create) {}

  std::string path;
  bool create = false;  // make it (0700) if it is missing; never make its parent
};

// The name of the network file system with this statfs() type; empty for any other type. FUSE has
// one type for all its file systems, so the callers decide. From statfs(2), linux/magic.h and the
// projects' own headers.
inline const char* NetworkFileSystemName(uint32_t type) {
  switch (type) {
    case 0x00006969:
      return "NFS";
    case 0x0000517B:
      return "SMB";
    case 0xFF534D42:
      return "CIFS";
    case 0xFE534D42:
      return "SMB2";
    case 0x0BD00BD0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x00C36400:
      return "Ceph";
    case 0x5346414F:
    case 0x6B414653:  // the kernel's own client
      return "AFS";
    case 0x19830326:
      return "BeeGFS";
    case 0x20030528:
      return "OrangeFS";
    case 0x73757245:
      return "Coda";
    case 0x01021997:
      return "9P";
    default:
      return "";
  }
}
inline constexpr uint32_t kFuseType = 0x65735546;

// Also true if the type of the file system is unknown because statfs() fails, and for all of FUSE:
// a rank does not read the table of mounts, and takes the next directory of the list instead.
inline bool IsOnNetworkFileSystem(const char* path) {
  struct statfs info;
  if (statfs(path, &info) != 0) return true;
  const auto type = static_cast<uint32_t>(info.f_type);
  return type == kFuseType || NetworkFileSystemName(type)[0] != '\0';
}

// Whether a file is a directory, belongs to this user, and has none of the permissions `forbidden`.
// 022: nobody else can replace what is in it. 077: nobody else can reach it, such as a socket.
inline bool IsOwnDirectory(const struct stat& info, mode_t forbidden) {
  return S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & forbidden) == 0;
}
// The same for a path. A symbolic link is not a directory, because its owner can change its target.
inline bool IsOwnDirectory(const std::string& path, mode_t forbidden) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && IsOwnDirectory(info, forbidden);
}

// Whether an open file is a regular file of this user without another name, through which somebody
// could have put it into a shared directory.
inline bool IsOwnFile(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == geteuid() && info.st_nlink <= 1;
}

// The directories, best first:
//   /run/ranklog/UID          made by an administrator
//   $XDG_RUNTIME_DIR/ranklog  only if $XDG_RUNTIME_DIR is on this node and a directory of this user
//                             with mode 0700 (jobs inherit the variable from a login node), and
//                             the path of the socket is not too long
//   /dev/shm/ranklog-UID      another user may have made it
//   /var/tmp/ranklog-UID      on a disk; another user may have made it
inline std::vector<PrivateDir> StandardDirs() {
  const std::string uid = std::to_string(geteuid());
  std::vector<PrivateDir> dirs = {{"/run/ranklog/" + uid, /*create=*/false}};
  const PrivateDir runtime(EnvironmentVariable("XDG_RUNTIME_DIR"), /*create=*/false);
  const std::string in_runtime = runtime.path + "/ranklog";
  if (in_runtime[0] == '/' && in_runtime.size() + sizeof(kSocketFile) <= kMaxSocketPath &&
      IsOwnDirectory(runtime.path, 077) && !IsOnNetworkFileSystem(runtime.path.c_str())) {
    dirs.push_back({in_runtime, /*create=*/true});
  }
  dirs.push_back({"/dev/shm/ranklog-" + uid, /*create=*/true});
  if (!IsOnNetworkFileSystem("/var/tmp")) {
    dirs.push_back({"/var/tmp/ranklog-" + uid, /*create=*/true});
  }
  return dirs;
}

// Whether the entry `name` of `dir` is a file of Ranklog, or a state directory.
inline bool IsRanklogFile(const std::string& dir, const std::string& name) {
  const auto begins = [&name](const std::string& with) { return name.rfind(with, 0) == 0; };
  const std::string path = dir + "/" + name;
  struct stat info;
  return begins("ring-") || begins(kDaemonLogFile) || begins(kStoreFile) || begins("spool_dirs") ||
         name == "lock" || name == "credentials" || name == kStartLockFile ||
         access((path + "/" + kStoreFile).c_str(), F_OK) == 0 ||
         (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode));
}

// Advice for a directory of this user that other users can reach. Recommends chmod only if the
// directory contains nothing but Ranklog's files. Other users may need the rest, as in / or /etc.
inline std::string PrivacyAdvice(const std::string& path) {
  DIR* const dir = opendir(path.c_str());
  bool only_ours = dir != nullptr;
  while (const dirent* entry = only_ours ? readdir(dir) : nullptr) {
    const std::string name = entry->d_name;
    only_ours = name == "." || name == ".." || IsRanklogFile(path, name);
  }
  if (dir != nullptr) closedir(dir);
  return only_ours ? "run: chmod 700 " + path
                   : "choose a directory of your own, without other files";
}

// Returns why neither a rank nor a daemon uses `dir`, and what to do. Empty if they use it, as far
// as this can be checked without creating it. `forbidden` as for IsOwnDirectory(). `how`: how to
// choose another directory, such as " with --listen".
inline std::string UnusableReason(const PrivateDir& dir, mode_t forbidden = 022,
                                  const std::string& how = "") {
  const std::string elsewhere = "; choose a directory of your own" + how;
  struct stat info;
  if (lstat(dir.path.c_str(), &info) != 0) {
    if (!dir.create) return dir.path + " does not exist";
    const std::string parent = dir.path.substr(0, dir.path.rfind('/') + 1);
    if (access(parent.empty() ? "." : parent.c_str(), W_OK) == 0) return "";
    return "cannot create the directory " + dir.path + ": " + strerror(errno) +
           (how.empty() ? "" : elsewhere);
  }
  if (IsOwnDirectory(info, forbidden)) return "";
  if (!S_ISDIR(info.st_mode)) {
    return dir.path + (S_ISLNK(info.st_mode) ? " is a symbolic link" : " is not a directory") +
           elsewhere;
  }
  if ((info.st_mode & S_ISVTX) != 0 && (info.st_mode & 022) != 0) {  // such as /tmp
    return dir.path + " is shared with other users" + elsewhere;
  }
  if (info.st_uid != geteuid()) {
    return dir.path + " belongs to user " + std::to_string(info.st_uid) + elsewhere;
  }
  return dir.path + (forbidden == 022 ? " is writable by" : " is accessible to") +
         " other users; " + PrivacyAdvice(dir.path);
}
inline bool CanBeUsed(const PrivateDir& dir) { return UnusableReason(dir).empty(); }

// The socket of a daemon that has no other address: in the first usable directory. If there is
// none, in the last one: a daemon then reports why it cannot listen there.
inline std::string DefaultSocket() {
  const std::vector<PrivateDir> dirs = StandardDirs();
  return std::find_if(dirs.begin(), dirs.end() - 1, CanBeUsed)->path + "/" + kSocketFile;
}

// Whether the path exists but is not private: it belongs to another user, it is a symbolic link, or
// others may write it.
inline bool IsTaken(const PrivateDir& dir) {
  struct stat info;
  return lstat(dir.path.c_str(), &info) == 0 && !CanBeUsed(dir);
}

}  // namespace ranklog::v1

#endif  // RANKLOG_V1_PLACES_H_
