#include "client/base/hash/sha1.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "client/base/hash/sha_blocks.h"

namespace ranklog::internal {
namespace {

void AddSha1Block(const char* block, uint32_t (&hash)[5]) {
  uint32_t words[80];
  for (size_t i = 0; i < 16; ++i) words[i] = ShaWord(block, i);
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
  uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  ForEachShaBlock(text, [&hash](const char* block) { AddSha1Block(block, hash); });
  return ShaDigits(hash);
}

}  // namespace ranklog::internal
