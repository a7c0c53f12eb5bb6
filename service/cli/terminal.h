// What the reader's terminal can show.

#ifndef SERVICE_CLI_TERMINAL_H_
#define SERVICE_CLI_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ranklog::cli {

struct Terminal {
  bool interactive = false;  // a person looks at it, not a file or a pipe
  bool color = false;        // interactive, and neither NO_COLOR nor TERM=dumb says otherwise
  bool unicode = false;      // the locale is a UTF-8 one
  int width = 80;            // columns
  int height = 0;            // lines; 0: unknown

  // Of a file descriptor, and of the environment.
  static Terminal Of(int fd);

  std::string Bold(absl::string_view text) const { return Paint("1", text); }
  std::string Dim(absl::string_view text) const { return Paint("2", text); }
  std::string Red(absl::string_view text) const { return Paint("31", text); }
  std::string Green(absl::string_view text) const { return Paint("32", text); }
  std::string Cyan(absl::string_view text) const { return Paint("36", text); }

 private:
  std::string Paint(absl::string_view code, absl::string_view text) const;
};

// `text` with control characters (C0, DEL and C1), and those of Unicode that begin a line or change
// the direction of text, shown as '?', so that what a run is called cannot drive the terminal.
std::string Printable(absl::string_view text);

// The beginning and the end of `text`, UTF-8, with "..." between them, in at most `width` columns
// (at least 5); all of it, if it fits.
std::string CutMiddle(const std::string& text, int width);

// The beginning of `text`, UTF-8, of at most `bytes`, and how long all of it is:
// "aaa... (5000 bytes)"; all of it, if it is no longer.
std::string CutEnd(const std::string& text, size_t bytes);

// The first lines of `page`, and how many more there are, so that all of it fits into `height` lines
// of `width` columns with the cursor below; `page` itself, if it does or `height` is 0. Colours take
// no column.
std::string CutPage(const std::string& page, int width, int height);

// The columns that `text`, UTF-8, takes: two for what East Asian scripts and emoji are written
// with, none for marks that join the character before, one for all else.
int TextWidth(absl::string_view text);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_TERMINAL_H_
