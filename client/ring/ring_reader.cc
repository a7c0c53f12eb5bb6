#include "client/ring/ring_reader.h"

#include <algorithm>
#include <cstring>

namespace ranklog::internal {

namespace {

// The length of a key, before its bytes.
struct KeyHeader {
  uint32_t key_bytes;
  size_t bytes() const { return sizeof *this + key_bytes; }
};

// Whether `bytes` contain `count` entries. Each has a header, which tells the size of the entry.
template <typename Header>
bool AreEntries(const std::byte* at, uint64_t bytes, uint64_t count) {
  for (; count > 0; --count) {
    Header header;
    if (bytes < sizeof header) return false;
    std::memcpy(&header, at, sizeof header);
    const size_t size = header.bytes();
    if (bytes < size) return false;
    at += size;
    bytes -= size;
  }
  return true;
}

}  // namespace

bool RingReader::Peek(v1::RecordKind* kind) {
  if (!damage_.empty()) return false;
  const uint64_t head = spool_->header()->head.load(std::memory_order_acquire);
  while (position_ != head) {
    const uint64_t to_end = spool_->data_bytes() - position_ % spool_->data_bytes();
    const uint64_t published = head - position_;
    std::memcpy(&header_, At(), sizeof header_);
    if (published > spool_->data_bytes() || !IsWhole(std::min(published, to_end))) {
      damage_ = "the spool was overwritten at its byte " + std::to_string(position_) +
                "; the rows after it cannot be sent";
      return false;
    }
    if (header_.kind != v1::RecordKind::kPad) {
      *kind = header_.kind;
      return true;
    }
    Skip();
  }
  return false;
}

bool RingReader::IsWhole(uint64_t room) const {
  if (header_.bytes < sizeof header_ || header_.bytes % v1::kRecordAlign != 0 ||
      header_.bytes > room) {
    return false;
  }
  switch (header_.kind) {
    case v1::RecordKind::kPad:
      return true;
    case v1::RecordKind::kShape:
      return IsWholeShape();
    case v1::RecordKind::kRow:
      return IsWholeRow();
    case v1::RecordKind::kItem:
      return IsWholeItem();
  }
  return false;
}

bool RingReader::IsWholeShape() const {
  v1::ShapeRecord record;
  if (header_.bytes < sizeof record) return false;
  std::memcpy(&record, At(), sizeof record);
  return record.shape > 0 && record.shape <= shapes_.size() &&
         record.key_bytes <= header_.bytes - sizeof record &&
         AreEntries<KeyHeader>(At() + sizeof record, record.key_bytes, record.key_count);
}

bool RingReader::IsWholeRow() const {
  if (header_.bytes < sizeof(v1::RowRecord)) return false;
  v1::RowRecord record;
  std::memcpy(&record, At(), sizeof record);
  const uint64_t rest = header_.bytes - sizeof record;
  const uint64_t values = uint64_t{8} * record.value_count;
  // The row's shape may have been freed, but it was read before.
  if (record.shape >= shapes_.size() || record.value_count != shapes_[record.shape].size()) {
    return false;
  }
  if (record.seq == 0 || (last_seq_ != 0 && record.seq != last_seq_ + 1)) return false;
  return values + record.text_bytes <= rest &&
         AreEntries<v1::TextHeader>(At() + sizeof record + values, record.text_bytes,
                                    record.text_count);
}

bool RingReader::IsWholeItem() const {
  v1::ItemRecord record;
  if (header_.bytes < sizeof record) return false;
  std::memcpy(&record, At(), sizeof record);
  return record.seq != 0 && (last_item_ == 0 || record.seq == last_item_ + 1) &&
         record.content_bytes <= header_.bytes - sizeof record;
}

void RingReader::Skip() {
  if (header_.kind == v1::RecordKind::kRow) last_seq_ = Row().record.seq;
  if (header_.kind == v1::RecordKind::kItem) last_item_ = Item().record.seq;
  position_ += header_.bytes;
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

ItemView RingReader::Item() const {
  ItemView item;
  const std::byte* const at = At();
  std::memcpy(&item.record, at, sizeof item.record);
  item.content = std::string_view(reinterpret_cast<const char*>(at + sizeof item.record),
                                  item.record.content_bytes);
  return item;
}

}  // namespace ranklog::internal
