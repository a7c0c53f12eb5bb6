// The capabilities of the user's terminal.

#ifndef SERVICE_CLI_OUTPUT_TERMINAL_H_
#define SERVICE_CLI_OUTPUT_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ranklog::cli {

struct Terminal {
  bool interactive = false;  // a terminal, not a file or a pipe
  bool color = false;        // interactive, and not disabled by NO_COLOR or TERM=dumb
  bool unicode = false;      // the locale is a UTF-8 locale
  int width = 80;            // columns
  int height = 0;            // lines; 0: unknown

  // Reads the capabilities from a file descriptor and the environment.
  static Terminal Of(int fd);

  std::string Bold(absl::string_view text) const { return Paint("1", text); }
  std::string Dim(absl::string_view text) const { return Paint("2", text); }
  std::string Red(absl::string_view text) const { return Paint("31", text); }
  std::string Green(absl::string_view text) const { return Paint("32", text); }
  std::string Cyan(absl::string_view text) const { return Paint("36", text); }

 private:
  std::string Paint(absl::string_view code, absl::string_view text) const;
};

// The beginning and the end of `text`, in UTF-8, with "..." between them, in at most `width`
// columns (at least 5). The whole text if it fits.
std::string CutMiddle(const std::string& text, int width);

// The beginning of `text`, in UTF-8, of at most `bytes` bytes, and its full length: "aaa... (5000
// bytes)". The whole text if it is not longer.
std::string CutEnd(const std::string& text, size_t bytes);

// The first lines of `page` and the number of further lines, so that all fits into `height` lines
// of `width` columns with the cursor below. The whole page if it fits or `height` is 0. Color
// sequences take no columns.
std::string CutPage(const std::string& page, int width, int height);

// The number of columns of `text`, in UTF-8: two for East Asian wide characters and emoji, zero for
// combining marks, one for all others.
int TextWidth(absl::string_view text);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_TERMINAL_H_
