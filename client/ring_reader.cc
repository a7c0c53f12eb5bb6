#include "client/ring_reader.h"

#include <cstring>

namespace ranklog::internal {

bool RingReader::Peek(v1::RecordKind* kind) {
  const uint64_t head = spool_->header()->head.load(std::memory_order_acquire);
  while (position_ != head) {
    std::memcpy(&header_, At(), sizeof header_);
    if (header_.kind != v1::RecordKind::kPad) {
      *kind = header_.kind;
      return true;
    }
    Skip();
  }
  return false;
}

RowView RingReader::Row() const {
  RowView row;
  const std::byte* const at = At();
  std::memcpy(&row.record, at, sizeof row.record);
  row.values = reinterpret_cast<const double*>(at + sizeof row.record);
  row.texts = std::string_view(reinterpret_cast<const char*>(row.values + row.record.value_count),
                               row.record.text_bytes);
  return row;
}

uint32_t RingReader::Shape() {
  v1::ShapeRecord record;
  std::memcpy(&record, At(), sizeof record);
  if (record.shape < shapes_.size()) return record.shape;  // read before a Rewind()
  std::vector<std::string>& keys = shapes_.emplace_back();
  const std::byte* at = At() + sizeof record;
  for (uint32_t i = 0; i < record.key_count; ++i) {
    uint32_t size;
    std::memcpy(&size, at, sizeof size);
    keys.emplace_back(reinterpret_cast<const char*>(at + sizeof size), size);
    at += sizeof size + size;
  }
  return record.shape;
}

std::string_view RingReader::Control() const {
  uint32_t size;
  std::memcpy(&size, At() + sizeof header_, sizeof size);
  return std::string_view(reinterpret_cast<const char*>(At() + sizeof header_ + 8), size);
}

}  // namespace ranklog::internal
