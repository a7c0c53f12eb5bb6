#include "service/base/text/printable.h"

namespace ranklog {
namespace {

// Checks the last two bytes of U+2000 to U+207F. True for the line and paragraph separators, U+2028
// and U+2029. Also true for characters that change the text direction, U+202A to U+202E and U+2066
// to U+2069.
bool TurnsText(unsigned char second, unsigned char third) {
  return (second == 0x80 && third >= 0xA8 && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const auto third = static_cast<unsigned char>(i + 2 < text.size() ? text[i + 2] : 0);
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      printable.push_back('?');
      ++i;
    } else if (byte == 0xE2 && TurnsText(next, third)) {
      printable.push_back('?');
      i += 2;
    } else {
      printable.push_back(byte < 0x20 || byte == 0x7F ? '?' : text[i]);
    }
  }
  return printable;
}

}  // namespace ranklog
