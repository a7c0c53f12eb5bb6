// The files of the page, embedded in the program. embed.cmake makes the source from pages/ and
// third_party/.

#ifndef SERVICE_UI_ASSETS_H_
#define SERVICE_UI_ASSETS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ranklog::ui {

struct Asset {
  absl::string_view name;  // such as "app.js"
  absl::string_view content;
};

absl::Span<const Asset> Assets();

// Null if there is none of this name.
const Asset* FindAsset(absl::string_view name);

}  // namespace ranklog::ui

#endif  // SERVICE_UI_ASSETS_H_
