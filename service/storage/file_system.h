// What kind of disk a directory lies on, and making files that are nobody else's.

#ifndef SERVICE_STORAGE_FILE_SYSTEM_H_
#define SERVICE_STORAGE_FILE_SYSTEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ranklog::storage {

// The name of the network file system whose statfs() type this is; empty for any other.
absl::string_view NetworkFileSystemName(uint64_t statfs_type);

// kFailedPrecondition if `directory` lies on a network file system: its locks and shared memory do
// not hold what a write-ahead log needs. Says what to set instead.
absl::Status CheckLocal(const std::string& directory);

// Makes `directory` (0700) and what is missing above it; harmless if it is there.
//   kPermissionDenied    it cannot be made, is another user's, or is no directory
//   kResourceExhausted   no space
absl::Status MakeDirectory(const std::string& directory);

// Makes an empty file (0600) unless it is there. The same errors.
absl::Status MakeFile(const std::string& path);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_FILE_SYSTEM_H_
