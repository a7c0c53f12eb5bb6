// Checks for UTF-8, and conversion to it. Needed for bytes from outside: readers of Protobuf and
// JSON reject a string that is not UTF-8. The utfcpp library would save 25 lines, but would add a
// package and is slower (client/base/text/keys.h).

#ifndef SERVICE_BASE_TEXT_UTF8_H_
#define SERVICE_BASE_TEXT_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace ranklog {

// The length of the sequence that starts with `lead`, and the bounds of its second byte. Length 0:
// no sequence starts with `lead`.
struct Utf8Sequence {
  size_t length;
  unsigned char low;
  unsigned char high;
};

inline Utf8Sequence Utf8SequenceOf(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// The size in bytes of the first character of `bytes`; 0 if they do not start with a character.
// Well-formed UTF-8 by table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing
// above U+10FFFF.
inline size_t Utf8Length(absl::string_view bytes) {
  if (bytes.empty()) return 0;
  const Utf8Sequence sequence = Utf8SequenceOf(static_cast<unsigned char>(bytes[0]));
  if (sequence.length > bytes.size()) return 0;
  for (size_t k = 1; k < sequence.length; ++k) {
    const auto byte = static_cast<unsigned char>(bytes[k]);
    const unsigned char low = k == 1 ? sequence.low : 0x80;
    const unsigned char high = k == 1 ? sequence.high : 0xBF;
    if (byte < low || byte > high) return 0;
  }
  return sequence.length;
}

inline bool IsUtf8(absl::string_view bytes) {
  while (const size_t length = Utf8Length(bytes)) bytes.remove_prefix(length);
  return bytes.empty();
}

// The characters of `bytes`, with U+FFFD for each byte that does not belong to a character.
inline std::string ToUtf8(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = Utf8Length(bytes);
    if (length == 0) {
      text += "\xEF\xBF\xBD";
    } else {
      text.append(bytes.data(), length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

// The beginning of `text`, which must be UTF-8: at most `max_bytes`, and only whole characters.
inline absl::string_view CutUtf8(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xC0) == 0x80) --max_bytes;
  return text.substr(0, max_bytes);
}

}  // namespace ranklog

#endif  // SERVICE_BASE_TEXT_UTF8_H_
