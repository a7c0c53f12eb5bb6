// Puts files into the content directory of a store, for uploads.

#ifndef SERVICE_IMPORT_STAGING_H_
#define SERVICE_IMPORT_STAGING_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ranklog::imports {

struct Staged {
  std::string name;  // in the content directory
  uint64_t bytes = 0;
};

// Links `path`, a regular file or a link to one, into the content directory of `state_dir`, which is made if it is
// missing. Copies it if the file system cannot link. `id` names it: the same id replaces an earlier
// one.
//   kNotFound     it does not exist, or is not a regular file
//   kUnavailable  another error of the file system
absl::StatusOr<Staged> StageFile(const std::string& state_dir, const std::string& path,
                                 const std::string& id);

// Whether a path from a log stays below the directory that it is relative to.
bool StaysBelow(const std::string& path);

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_STAGING_H_
