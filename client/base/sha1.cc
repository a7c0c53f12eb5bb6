#include "client/base/sha1.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ranklog::internal {
namespace {

constexpr size_t kBlockBytes = 64;

void AddBlock(const unsigned char* block, uint32_t (&hash)[5]) {
  uint32_t words[80];
  for (size_t i = 0; i < 16; ++i) {
    words[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
               uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  }
  for (size_t i = 16; i < 80; ++i) {
    words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  }
  auto [a, b, c, d, e] = hash;
  for (size_t i = 0; i < 80; ++i) {
    const uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                           : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                           : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                    : (b ^ c ^ d) + 0xca62c1d6;
    const uint32_t next = std::rotl(a, 5) + mixed + e + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const uint32_t sums[] = {a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) hash[i] += sums[i];
}

}  // namespace

std::string Sha1(std::string_view text) {
  std::string padded(text);
  padded.push_back('\x80');
  while (padded.size() % kBlockBytes != kBlockBytes - 8) padded.push_back('\0');
  const uint64_t bits = 8 * uint64_t{text.size()};
  for (int shift = 56; shift >= 0; shift -= 8) padded.push_back(static_cast<char>(bits >> shift));

  uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  for (size_t at = 0; at < padded.size(); at += kBlockBytes) {
    AddBlock(reinterpret_cast<const unsigned char*>(padded.data()) + at, hash);
  }
  std::string digits;
  for (const uint32_t word : hash) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      digits.push_back("0123456789abcdef"[word >> shift & 15]);
    }
  }
  return digits;
}

}  // namespace ranklog::internal
