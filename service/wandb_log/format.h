// The framing of a `.wandb` log: README.md.

#ifndef SERVICE_WANDB_LOG_FORMAT_H_
#define SERVICE_WANDB_LOG_FORMAT_H_

#include <zlib.h>

#include <cstdint>

#include "absl/strings/string_view.h"

namespace ranklog::wandb_log {

constexpr uint64_t kBlockBytes = 32768;
constexpr uint64_t kChunkHeaderBytes = 7;
constexpr uint64_t kFileHeaderBytes = 7;
// The name, a magic number, and version 0.
constexpr absl::string_view kFileHeader(":W&B\xe1\xbe\0", kFileHeaderBytes);

enum class ChunkType : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// `chunk`: the type byte and the payload.
inline uint32_t ChunkChecksum(absl::string_view chunk) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size()));
}

}  // namespace ranklog::wandb_log

#endif  // SERVICE_WANDB_LOG_FORMAT_H_
