// The owners of files and sockets that this user trusts, and secrets in such files.

#ifndef SERVICE_BASE_OWNERSHIP_H_
#define SERVICE_BASE_OWNERSHIP_H_

#include <sys/types.h>
#include <unistd.h>

#include <string>

#include "absl/status/statusor.h"

namespace ranklog {

// Root can act as this user anyway. v1::IsOwnDirectory() and v1::IsOwnFile() do not accept root's.
inline bool IsOursOrRoots(uid_t owner) { return owner == geteuid() || owner == 0; }

// The text of a file of this user or root, at most 1 MiB. Follows links: a Kubernetes secret is one.
// The messages tell what to do.
//   kNotFound          there is no file
//   kPermissionDenied  it is not a regular file, has another owner, or must be private and is
//                      accessible to other users
absl::StatusOr<std::string> ReadOwnFile(const std::string& path, bool must_be_private);

}  // namespace ranklog

#endif  // SERVICE_BASE_OWNERSHIP_H_
