#ifndef SERVICE_UI_HTML_FILE_H_
#define SERVICE_UI_HTML_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/ui/stores.h"

namespace ranklog::ui {

// The page of one run as one HTML file, which opens without a server: scripts, styles and data are
// inside, and it loads nothing. Contains the whole config and the last lines of the console.
absl::StatusOr<std::string> HtmlFile(const StoreSource& store, int64_t run);

}  // namespace ranklog::ui

#endif  // SERVICE_UI_HTML_FILE_H_
