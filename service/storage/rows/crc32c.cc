#include "service/storage/rows/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace ranklog::storage {
namespace {

constexpr uint32_t kReflectedPolynomial = 0x82F63B78;

// tables[k][b] is the remainder of byte b followed by k zero bytes, so that eight bytes take eight
// look-ups.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint64_t LoadWord(const char* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cSse42(absl::string_view bytes) {
  uint64_t crc = 0xffffffff;
  const char* data = bytes.data();
  const char* const end = data + bytes.size();
  for (; end - data >= 8; data += 8) crc = _mm_crc32_u64(crc, LoadWord(data));
  auto rest = static_cast<uint32_t>(crc);
  for (; data != end; ++data) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(*data));
  return ~rest;
}
#endif

}  // namespace

uint32_t Crc32cPortable(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  const char* data = bytes.data();
  const char* const end = data + bytes.size();
  for (; end - data >= 8; data += 8) {
    const uint64_t word = LoadWord(data) ^ crc;
    crc = 0;
    for (size_t byte = 0; byte < 8; ++byte) crc ^= kTables[7 - byte][(word >> (8 * byte)) & 0xff];
  }
  for (; data != end; ++data) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*data)) & 0xff];
  }
  return ~crc;
}

uint32_t Crc32c(absl::string_view bytes) {
#if defined(__x86_64__)
  static const bool hardware = __builtin_cpu_supports("sse4.2") != 0;
  if (hardware) return Crc32cSse42(bytes);
#endif
  return Crc32cPortable(bytes);
}

}  // namespace ranklog::storage
