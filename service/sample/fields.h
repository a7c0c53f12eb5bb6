// Takes a line of /proc apart without allocations.

#ifndef SERVICE_SAMPLE_FIELDS_H_
#define SERVICE_SAMPLE_FIELDS_H_

#include <charconv>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::sample {

// Removes the first line from `text`, and returns it without its line break.
inline absl::string_view TakeLine(absl::string_view& text) {
  const size_t end = text.find('\n');
  const absl::string_view line = text.substr(0, end);
  text = end == absl::string_view::npos ? absl::string_view() : text.substr(end + 1);
  return line;
}

// Removes the first field from `line`, and returns it; empty at the end. Blanks separate fields.
inline absl::string_view TakeField(absl::string_view& line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == absl::string_view::npos) {
    line = absl::string_view();
    return line;
  }
  const size_t end = line.find_first_of(" \t", begin);
  const absl::string_view field = line.substr(begin, end - begin);
  line = end == absl::string_view::npos ? absl::string_view() : line.substr(end);
  return field;
}

// Removes the first `count` fields.
inline void SkipFields(absl::string_view& line, int count) {
  for (int i = 0; i < count; ++i) TakeField(line);
}

// The non-negative integer at the start of `text`; nullopt if it starts with anything else.
inline absl::optional<uint64_t> NumberAt(absl::string_view text) {
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return absl::nullopt;
  return number;
}

// Removes the first field, and returns its number; 0 if it is not a number.
inline uint64_t TakeNumber(absl::string_view& line) {
  return NumberAt(TakeField(line)).value_or(0);
}

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_FIELDS_H_
