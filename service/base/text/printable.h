#ifndef SERVICE_BASE_TEXT_PRINTABLE_H_
#define SERVICE_BASE_TEXT_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ranklog {

// `text` with '?' for control characters (C0, DEL and C1) and for Unicode characters that start a
// line or change the direction of text. So a run's name cannot control the terminal.
std::string Printable(absl::string_view text);

}  // namespace ranklog

#endif  // SERVICE_BASE_TEXT_PRINTABLE_H_
