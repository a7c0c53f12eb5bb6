// Leaves items that are too large for a ring in files of the daemon's state directory.

#ifndef CLIENT_CONTENT_CONTENT_FILES_H_
#define CLIENT_CONTENT_CONTENT_FILES_H_

#include <dirent.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// The directory, opened. Null: it is not the daemon's, such as that of another container, or the
// daemon is another user's, who could not read the file.
DIR* OpenPlace(const v1::ContentPlace& place);

// Writes all of `content`. Returns 0, or the errno of what failed.
int WriteAll(int fd, std::string_view content);

// Writes a serialized item to a new file. From then on it survives the end of this process, like
// the rows in a ring. Takes the time of the copy, some 2 ms per MB.
//   kFailedPrecondition  this process does not see the daemon's directory
//   kResourceExhausted   too large, above the quota, or no space
absl::StatusOr<v1::ContentFile> WriteContentFile(const v1::ContentPlace& place,
                                                 std::string_view content);
void RemoveContentFile(const v1::ContentPlace& place, const v1::ContentFile& file);

}  // namespace ranklog::internal

#endif  // CLIENT_CONTENT_CONTENT_FILES_H_
