// Lines of the console as output of a program. `wandb sync` reads them with a small terminal: 32 lines
// for each channel, with carriage return, line feed, cursor up and cursor down.

#ifndef SERVICE_DELIVER_OFFLINE_CONSOLE_TEXT_H_
#define SERVICE_DELIVER_OFFLINE_CONSOLE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace ranklog::deliver::offline {

// The output that appends a line. The line stays open, so that it can be changed.
std::string NewConsoleLine(bool first, absl::string_view text);
// The output that replaces the line `up` lines above the last one, which is `width` wide. The cursor
// ends in the last line.
std::string ChangedConsoleLine(size_t up, size_t width, absl::string_view text);
// How wide the line is after one of these outputs, in characters.
size_t ConsoleWidth(absl::string_view output);

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_CONSOLE_TEXT_H_
