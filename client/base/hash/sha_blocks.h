// What SHA-1 and SHA-256 have in common.

#ifndef CLIENT_BASE_HASH_SHA_BLOCKS_H_
#define CLIENT_BASE_HASH_SHA_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ranklog::internal {

// Calls `add` with each block of 64 bytes of the padded text. Source: FIPS 180-4, 5.1.1.
template <typename AddBlock>
void ForEachShaBlock(std::string_view text, const AddBlock& add) {
  constexpr size_t kBytes = 64;
  const uint64_t bits = 8 * uint64_t{text.size()};
  for (; text.size() >= kBytes; text.remove_prefix(kBytes)) add(text.data());
  std::string last(text);
  last.push_back('\x80');
  while (last.size() % kBytes != kBytes - 8) last.push_back('\0');
  for (int shift = 56; shift >= 0; shift -= 8) last.push_back(static_cast<char>(bits >> shift));
  for (size_t at = 0; at < last.size(); at += kBytes) add(last.data() + at);
}

// Word `i` of a block, whose bytes are in big-endian order.
inline uint32_t ShaWord(const char* block, size_t i) {
  uint32_t word = 0;
  for (size_t j = 0; j < 4; ++j) word = word << 8 | static_cast<unsigned char>(block[4 * i + j]);
  return word;
}

template <size_t kWords>
std::string ShaDigits(const uint32_t (&hash)[kWords]) {
  std::string digits;
  for (const uint32_t word : hash) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      digits.push_back("0123456789abcdef"[word >> shift & 15]);
    }
  }
  return digits;
}

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_HASH_SHA_BLOCKS_H_
