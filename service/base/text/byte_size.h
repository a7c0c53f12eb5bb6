// Parses sizes with units.

#ifndef SERVICE_BASE_TEXT_BYTE_SIZE_H_
#define SERVICE_BASE_TEXT_BYTE_SIZE_H_

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ranklog {

// A number with an optional unit: B, KiB, MiB, GiB or TiB. False if it is malformed, negative, or
// 2^62 or more. Not CLI::AsSizeValue, which takes no fractions, and reads "4g", "4GB" and "4GiB" as
// one size.
inline bool ParseBytes(absl::string_view text, int64_t* bytes) {
  constexpr std::pair<const char*, int> kUnits[] = {
      {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"B", 0}};
  int shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (!absl::ConsumeSuffix(&text, unit)) continue;
    shift = bits;
    break;
  }
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !(number >= 0)) return false;
  number = std::ldexp(number, shift);
  if (!(number < std::ldexp(1, 62))) return false;
  *bytes = static_cast<int64_t>(number);
  return true;
}

}  // namespace ranklog

#endif  // SERVICE_BASE_TEXT_BYTE_SIZE_H_
