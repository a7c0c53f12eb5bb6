// Finds the type of a directory's file system, and makes files that are private to this user.

#ifndef SERVICE_STORAGE_DIRECTORIES_FILE_SYSTEM_H_
#define SERVICE_STORAGE_DIRECTORIES_FILE_SYSTEM_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ranklog::storage {

// The name of the FUSE network file system that is mounted as `device`; empty for any other file
// system. `mounts` is the text of /proc/self/mountinfo, see proc(5).
absl::string_view NetworkFuseName(absl::string_view mounts, dev_t device);

// "1" in the environment: the store may be on a network file system.
inline constexpr char kAllowNetworkFileSystem[] = "RANKLOG_ALLOW_NETWORK_FILE_SYSTEM";

// kFailedPrecondition if `directory` is on a network file system and kAllowNetworkFileSystem is not
// set. Locks and shared memory there are not reliable enough for a write-ahead log. The message
// names the variable to set instead.
absl::Status CheckLocal(const std::string& directory);

// The name of the file system of `directory` if its files end with the container or at a reboot:
// "tmpfs", "ramfs", "overlay" (the root of a container). Empty for any other one, and if the type
// is unknown.
absl::string_view VolatileFileSystemName(const std::string& directory);

// Makes `directory` and its missing parents, all with mode 0700. Harmless if it exists.
//   kPermissionDenied    it cannot be made, is not a directory, or is not private: it (or a
//                        symbolic link in its place) belongs to another user, or others may write
//                        it
//   kResourceExhausted   no space
absl::Status MakeDirectory(const std::string& directory);

// Makes an empty file (0600) unless it exists, in a directory that MakeDirectory() accepted. An
// existing file may have been put there while others could write: see CheckFile(). Does not open an
// existing file, because closing it would drop this process's locks on it.
absl::Status MakeFile(const std::string& path);

// Makes the names in `directory` survive a power cut.
absl::Status SyncDirectory(const std::string& directory);

// OK if `path` does not exist. Also OK if it is a file of this user, and all its names are in its
// directory; other users then lose read access to it. So nobody can make us open a foreign file
// under this name.
//   kPermissionDenied    it is a link, a pipe or another user's file, or has a name elsewhere
absl::Status CheckFile(const std::string& path);

// The same for a file that is only read. It may belong to another user.
absl::Status CheckReadFile(const std::string& path);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DIRECTORIES_FILE_SYSTEM_H_
