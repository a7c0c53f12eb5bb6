#ifndef SERVICE_DELIVER_GZIP_H_
#define SERVICE_DELIVER_GZIP_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver {

// Compresses `text` with gzip at level 1. Higher levels cost several times more CPU than all other
// work on a row, and save only a tenth of the bytes.
absl::StatusOr<std::string> Gzip(absl::string_view text);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_GZIP_H_
