#include "service/ingest/utf8.h"

#include <cstddef>

namespace ranklog::ingest {
namespace {

// The length of the sequence that starts with `lead`, and the bounds of its second byte; 0: none
// does.
struct Sequence {
  size_t length;
  unsigned char low;
  unsigned char high;
};

Sequence SequenceOf(unsigned char lead) {
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

}  // namespace

bool IsUtf8(const std::string& bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const Sequence sequence = SequenceOf(static_cast<unsigned char>(bytes[i]));
    if (sequence.length == 0 || sequence.length > bytes.size() - i) return false;
    for (size_t k = 1; k < sequence.length; ++k) {
      const auto byte = static_cast<unsigned char>(bytes[i + k]);
      const unsigned char low = k == 1 ? sequence.low : 0x80;
      const unsigned char high = k == 1 ? sequence.high : 0xBF;
      if (byte < low || byte > high) return false;
    }
    i += sequence.length;
  }
  return true;
}

}  // namespace ranklog::ingest
