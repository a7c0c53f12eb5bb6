// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected, as in RFC 3720 B.4): detects damage in
// stored data.

#ifndef SERVICE_STORAGE_ROWS_CRC32C_H_
#define SERVICE_STORAGE_ROWS_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace ranklog::storage {

// About 0.4 ns per 8 bytes with the processor's instruction, 3 ns without it.
uint32_t Crc32c(absl::string_view bytes);

// The same without the processor's instruction, for comparison in a test.
uint32_t Crc32cPortable(absl::string_view bytes);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_ROWS_CRC32C_H_
