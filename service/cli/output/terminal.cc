#include "service/cli/output/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/environment.h"
#include "service/base/text/utf8.h"

namespace ranklog::cli {
namespace {

// The first of these variables that is set decides, as in setlocale(3).
bool Utf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = absl::AsciiStrToLower(EnvironmentVariable(name));
    if (locale.empty()) continue;
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

struct Block {
  uint32_t first, last;
};

// Unicode's East_Asian_Width W and F, by whole blocks. Not wcwidth(): it answers for the locale of
// the process, and in "C", which jobs often have, it knows only ASCII.
constexpr Block kWide[] = {
    {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},  {0xA960, 0xA97F}, {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF01, 0xFF60},  {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F},
    {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
// Combining marks, joiners and variation selectors.
constexpr Block kJoining[] = {
    {0x0300, 0x036F}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};

template <size_t kCount>
bool In(const Block (&blocks)[kCount], uint32_t point) {
  return std::any_of(std::begin(blocks), std::end(blocks), [point](const Block& block) {
    return block.first <= point && point <= block.last;
  });
}

// Removes the color sequences of Terminal::Paint().
std::string WithoutColours(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

int Width(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int columns = 0;
  if (absl::SimpleAtoi(EnvironmentVariable("COLUMNS"), &columns) && columns > 0) return columns;
  return 80;
}

}  // namespace

Terminal Terminal::Of(int fd) {
  Terminal terminal;
  terminal.interactive = isatty(fd) == 1;
  terminal.color = terminal.interactive && EnvironmentVariable("NO_COLOR").empty() &&
                   EnvironmentVariable("TERM") != "dumb";
  terminal.unicode = Utf8Locale();
  terminal.width = Width(fd);
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0) terminal.height = size.ws_row;
  return terminal;
}

std::string Terminal::Paint(absl::string_view code, absl::string_view text) const {
  return color ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : std::string(text);
}

std::string CutMiddle(const std::string& text, int width) {
  if (TextWidth({text.data(), text.size()}) <= width) return text;
  constexpr absl::string_view kDots = "...";
  const int kept = width - static_cast<int>(kDots.size());
  std::vector<absl::string_view> characters;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i++;
    while (i < text.size() && (text[i] & 0xC0) == 0x80) ++i;
    characters.emplace_back(text.data() + begin, i - begin);
  }
  std::string head;
  size_t used = 0;
  for (int left = (kept + 1) / 2; used < characters.size(); ++used) {
    left -= TextWidth(characters[used]);
    if (left < 0) break;
    absl::StrAppend(&head, characters[used]);
  }
  std::string tail;
  for (int left = kept / 2; characters.size() > used; characters.pop_back()) {
    left -= TextWidth(characters.back());
    if (left < 0) break;
    tail.insert(0, characters.back().data(), characters.back().size());
  }
  return absl::StrCat(head, kDots, tail);
}

std::string CutPage(const std::string& page, int width, int height) {
  if (height <= 0) return page;
  constexpr int kBelow = 1;  // the line of the cursor
  std::vector<size_t> ends;  // end of each line of the page
  std::vector<int> heights;
  int all = 0;
  for (size_t begin = 0, end; (end = page.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const int columns = TextWidth(WithoutColours({page.data() + begin, end - begin}));
    ends.push_back(end + 1);
    heights.push_back(std::max(1, (columns + width - 1) / std::max(1, width)));
    all += heights.back();
  }
  if (all + kBelow <= height) return page;
  size_t shown = ends.size();
  while (shown > 0 && all + kBelow + 1 > height) all -= heights[--shown];
  return absl::StrCat(page.substr(0, shown == 0 ? 0 : ends[shown - 1]), "... and ",
                      ends.size() - shown, " more lines\n");
}

std::string CutEnd(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  return absl::StrCat(CutUtf8(text, bytes), "... (", text.size(), " bytes)");
}

int TextWidth(absl::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    uint32_t point = lead < 0x80   ? lead
                     : lead < 0xE0 ? lead & 0x1F
                     : lead < 0xF0 ? lead & 0x0F
                                   : lead & 0x07;
    for (; i < text.size() && (text[i] & 0xC0) == 0x80; ++i) point = point << 6 | (text[i] & 0x3F);
    width += In(kJoining, point) ? 0 : In(kWide, point) ? 2 : 1;
  }
  return width;
}

}  // namespace ranklog::cli
