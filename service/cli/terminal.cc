#include "service/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ranklog::cli {
namespace {

absl::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

// The first of these that is set decides, as in setlocale(3).
bool Utf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = absl::AsciiStrToLower(Environment(name));
    if (locale.empty()) continue;
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

int Width(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int columns = 0;
  if (absl::SimpleAtoi(Environment("COLUMNS"), &columns) && columns > 0) return columns;
  return 80;
}

}  // namespace

Terminal Terminal::Of(int fd) {
  Terminal terminal;
  terminal.interactive = isatty(fd) == 1;
  terminal.color =
      terminal.interactive && Environment("NO_COLOR").empty() && Environment("TERM") != "dumb";
  terminal.unicode = Utf8Locale();
  terminal.width = Width(fd);
  return terminal;
}

std::string Terminal::Paint(absl::string_view code, absl::string_view text) const {
  return color ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : std::string(text);
}

std::string Printable(absl::string_view text) {
  std::string printable(text);
  std::replace_if(
      printable.begin(), printable.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return printable;
}

int TextWidth(absl::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace ranklog::cli
