// Copies files of the program to the daemon's directory, for uploads.

#ifndef CLIENT_CONTENT_STAGED_FILES_H_
#define CLIENT_CONTENT_STAGED_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

struct StagedFile {
  std::string name;  // in the daemon's directory
  uint64_t bytes = 0;
};

// Copies a regular file under a new name. On a file system that can, the copy shares the space of
// the file (a reflink). Returns when the copy is on the disk: from then on, the file may change. Leaves
// a twentieth of the file system free, because the daemon's store needs room.
// `goes_on` is called often, with the bytes copied so far; if it returns false, the copy is given up.
//   kFailedPrecondition  this process does not see the daemon's directory
//   kNotFound            there is no such file, or it cannot be read
//   kResourceExhausted   no space
//   kAborted             the file was changed meanwhile, or has more bytes than it tells, as in /proc
//   kCancelled           `goes_on` returned false
absl::StatusOr<StagedFile> StageFile(const v1::ContentPlace& place, const std::string& path,
                                     const std::function<bool(uint64_t copied)>& goes_on);
// Writes `bytes` to a new file, and returns when it is on the disk. Errors as above.
absl::StatusOr<StagedFile> StageBytes(const v1::ContentPlace& place, std::string_view bytes);
void RemoveStagedFile(const v1::ContentPlace& place, const std::string& name);

// Tells whether a file was written since. All are equal that cannot be read.
struct FileStamp {
  int64_t bytes = -1;
  int64_t time_ns = 0;  // Unix time of the last change

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
FileStamp StampOf(const std::string& path);

// The path from the root, for the process's current directory. The path itself if that is unknown.
std::string Absolute(const std::string& path);

// A file for an upload, with its name there.
struct FileToStage {
  std::string path;
  std::string name;  // with /
};
// The file, with its last component as its name; or the files of a directory, sorted, with their
// paths in it. A link to a directory that contains it is left out.
//   kNotFound  there is no such file or directory, or it or the target of a link in it cannot be read
absl::StatusOr<std::vector<FileToStage>> FilesIn(const std::string& path);
using FindFiles = std::function<absl::StatusOr<std::vector<FileToStage>>(const std::string& path)>;

}  // namespace ranklog::internal

#endif  // CLIENT_CONTENT_STAGED_FILES_H_
