// What kind of disk a directory lies on, and making files that are nobody else's.

#ifndef SERVICE_STORAGE_FILE_SYSTEM_H_
#define SERVICE_STORAGE_FILE_SYSTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ranklog::storage {

// The name of the network file system whose statfs() type this is; empty for any other.
absl::string_view NetworkFileSystemName(uint64_t statfs_type);

// The name of the network file system by FUSE that is mounted as `device`; empty if it is another
// one. `mounts`: the text of /proc/self/mountinfo, see proc(5).
absl::string_view NetworkFuseName(absl::string_view mounts, dev_t device);

// "1" in the environment: the store may lie on a network file system.
inline constexpr char kAllowNetworkFileSystem[] = "RANKLOG_ALLOW_NETWORK_FILE_SYSTEM";

// kFailedPrecondition if `directory` lies on a network file system and kAllowNetworkFileSystem is
// not set: its locks and shared memory do not hold what a write-ahead log needs. Says what to set
// instead.
absl::Status CheckLocal(const std::string& directory);

// The name of the file system of `directory` if it ends with its container or at a reboot: "tmpfs",
// "ramfs", "overlay" (the root of a container); else empty, also where that cannot be found out.
absl::string_view VolatileFileSystemName(const std::string& directory);

// Makes `directory` and what is missing above it, all 0700; harmless if it is there.
//   kPermissionDenied    it cannot be made, is no directory, or is not this user's alone: it (or a
//                        link in its place) is another's, or others may write it
//   kResourceExhausted   no space
absl::Status MakeDirectory(const std::string& directory);

// Makes an empty file (0600) unless it is there, in a directory that MakeDirectory() took. What it
// finds there was perhaps put there while others could: see CheckFile(). Opens no file that is
// there, which would drop the locks that this process holds on it.
absl::Status MakeFile(const std::string& path);

// The names in `directory` survive a power cut from then on.
absl::Status SyncDirectory(const std::string& directory);

// OK: `path` is a file of this user, readable for nobody else any more, all of whose names lie in
// its directory; or there is nothing. What is opened then is no file that somebody lent its name.
//   kPermissionDenied    it is a link, a pipe, another user's, or has a name elsewhere
absl::Status CheckFile(const std::string& path);

// The same for a file that is only read, which may be another user's.
absl::Status CheckReadFile(const std::string& path);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_FILE_SYSTEM_H_
