// The list of an artifact's files, which the official client writes beside the log if it is long.

#ifndef SERVICE_IMPORT_MANIFEST_FILE_H_
#define SERVICE_IMPORT_MANIFEST_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::imports {

// Adds to `manifest` the entries of its file, if it names one: JSON lines, compressed by gzip. Of an
// entry, only the path, the reference and the local path are read.
//   kNotFound  the file cannot be read
//   kDataLoss  it is damaged
absl::Status ReadManifestFile(wandb_internal::ArtifactManifest* manifest);

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_MANIFEST_FILE_H_
