// Directories of this user that no other user can write, on this node: for spools and sockets.

#ifndef CLIENT_BASE_PRIVATE_DIR_H_
#define CLIENT_BASE_PRIVATE_DIR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranklog/v1/places.h"

namespace ranklog::internal {

using v1::PrivateDir;
using v1::StandardDirs;

// OK: `dir` exists, is a directory and not a symbolic link, belongs to this user, and is not
// writable by others.
//   kNotFound           it does not exist (and was not to be created)
//   kPermissionDenied   it belongs to another user, or others can write it
absl::Status Prepare(const PrivateDir& dir);

// Opens, or makes (0600), a file for writing in a directory that Prepare() accepted. The file must
// belong to this user and have no other name, in case somebody put it there before the directory
// was private. Never blocks. The caller owns the descriptor.
//   kPermissionDenied   it is another kind of file, or cannot be opened
absl::StatusOr<int> OpenOwnFile(const std::string& path, int flags);

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_PRIVATE_DIR_H_
