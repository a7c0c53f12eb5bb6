#include "client/base/text/keys.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "ranklog/value.h"

namespace ranklog::internal {
namespace {

// The length of the UTF-8 sequence at `p`, where `left` bytes are available; 0 if it is not valid.
size_t SequenceLength(const unsigned char* p, size_t left) {
  const auto continues = [&](size_t i) { return i < left && (p[i] & 0xC0) == 0x80; };
  if (p[0] < 0x80) return 1;
  if (p[0] >= 0xC2 && p[0] <= 0xDF) return continues(1) ? 2 : 0;
  if ((p[0] & 0xF0) == 0xE0) {
    if (!continues(1) || !continues(2)) return 0;
    if (p[0] == 0xE0 && p[1] < 0xA0) return 0;   // overlong
    if (p[0] == 0xED && p[1] >= 0xA0) return 0;  // a surrogate
    return 3;
  }
  if (p[0] >= 0xF0 && p[0] <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (p[0] == 0xF0 && p[1] < 0x90) return 0;   // overlong
    if (p[0] == 0xF4 && p[1] >= 0x90) return 0;  // above U+10FFFF
    return 4;
  }
  return 0;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = p + text.size();
  while (p < end) {
    uint64_t eight;
    if (end - p >= 8 && (std::memcpy(&eight, p, 8), (eight & 0x8080808080808080ULL) == 0)) {
      p += 8;
      continue;
    }
    const size_t length = SequenceLength(p, static_cast<size_t>(end - p));
    if (length == 0) return false;
    p += length;
  }
  return true;
}

std::string KeyError(std::string_view key) {
  if (key.empty()) return "a key or a MetricHandle is empty";
  if (!IsUtf8(key)) return "a key is not UTF-8";
  if (key.size() > kMaxKeyBytes) {
    return "the key that starts with " + std::string(key.substr(0, 40)) + " is longer than " +
           std::to_string(kMaxKeyBytes) + " bytes";
  }
  if (std::find(std::begin(kReservedKeys), std::end(kReservedKeys), key) !=
      std::end(kReservedKeys)) {
    return "the key " + std::string(key) + " is reserved for data of the row itself";
  }
  return "";
}

}  // namespace ranklog::internal
