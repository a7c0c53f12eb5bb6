// Where spools may lie: directories of ours that no other user can write, on memory of this node.

#ifndef CLIENT_SPOOL_DIR_H_
#define CLIENT_SPOOL_DIR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranklog/v1/places.h"

namespace ranklog::internal {

using v1::PrivateDir;
using v1::StandardDirs;

// OK: `dir` exists, is a directory and no link, belongs to this user, and nobody else may write it.
//   kNotFound           it does not exist (and was not to be created)
//   kPermissionDenied   it is not ours alone
absl::Status Prepare(const PrivateDir& dir);

// Opens, or makes (0600), a file for writing in a directory that Prepare() took: one of this user
// that has no other name, nothing that somebody put there before the directory was ours alone.
// Never waits. The descriptor is the caller's.
//   kPermissionDenied   it is something else, or cannot be opened
absl::StatusOr<int> OpenOwnFile(const std::string& path, int flags);

}  // namespace ranklog::internal

#endif  // CLIENT_SPOOL_DIR_H_
