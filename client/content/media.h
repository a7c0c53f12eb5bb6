// Media values of rows, as the tracker gets them: an entry of the row, and files of the run.

#ifndef CLIENT_CONTENT_MEDIA_H_
#define CLIENT_CONTENT_MEDIA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ranklog/c.h"
#include "ranklog/value.h"

namespace ranklog::internal {

struct MediaFile {
  std::string path;  // among the files of the run: "media/images/KEY_STEP_HASH.png"
  std::string bytes;
};

struct Media {
  Value entry;
  std::vector<MediaFile> files;
  // Images or rows above the limit, and why they are left out.
  uint64_t left_out = 0;
  std::string why;
};

inline bool IsMedia(const ranklog_field& field) { return field.kind >= RANKLOG_IMAGE; }

// `field` is media, and its key can be logged. The entry and the paths are those of W&B's SDK.
//   kInvalidArgument  the content is wrong, too large, or of an unknown kind
absl::StatusOr<Media> MakeMedia(const ranklog_field& field, int64_t step);

}  // namespace ranklog::internal

#endif  // CLIENT_CONTENT_MEDIA_H_
