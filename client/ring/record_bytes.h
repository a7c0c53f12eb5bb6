// How the bytes of a record are laid out; see spool_format.md.

#ifndef CLIENT_RING_RECORD_BYTES_H_
#define CLIENT_RING_RECORD_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {

constexpr size_t Align(size_t bytes) {
  return (bytes + v1::kRecordAlign - 1) / v1::kRecordAlign * v1::kRecordAlign;
}

inline std::byte* Append(std::byte* at, std::string_view bytes) {
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());  // null without bytes
  return at + bytes.size();
}

inline std::byte* AppendLength(std::byte* at, size_t length) {
  const auto value = static_cast<uint32_t>(length);
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

}  // namespace ranklog::internal

#endif  // CLIENT_RING_RECORD_BYTES_H_
