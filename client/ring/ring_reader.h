// Reads the records of one ring in order and in place, for the sender. Bugs of the trainer can
// overwrite this memory, so each record is checked before it is used.

#ifndef CLIENT_RING_RING_READER_H_
#define CLIENT_RING_RING_READER_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/ring/spool/spool.h"

namespace ranklog::internal {

// A row in the ring; valid until its record is freed.
struct RowView {
  v1::RowRecord record;
  const double* values;    // record.value_count of them
  std::string_view texts;  // see ForEachText()

  bool commits() const { return (record.header.flags & v1::kRowCommits) != 0; }
  bool counted() const { return (record.header.flags & v1::kRowCounted) != 0; }
};

template <typename Fn>  // fn(key, value, json)
void ForEachText(const RowView& row, Fn&& fn) {
  std::string_view rest = row.texts;
  for (uint32_t i = 0; i < row.record.text_count; ++i) {
    v1::TextHeader header;
    std::memcpy(&header, rest.data(), sizeof header);
    fn(rest.substr(sizeof header, header.key_bytes),
       rest.substr(sizeof header + header.key_bytes, header.value_bytes), header.json != 0);
    rest.remove_prefix(header.bytes());
  }
}

// An item in the ring; valid until its record is freed.
struct ItemView {
  v1::ItemRecord record;
  std::string_view content;  // a serialized ranklog.v1.Item
};

// For one thread, the thread that also moves the header's tail. Positions count bytes since the
// ring was made, like head and tail.
class RingReader {
 public:
  explicit RingReader(Spool* spool) : spool_(spool) {}

  // Goes back to the oldest record that was not freed.
  void Rewind() {
    position_ = spool_->header()->tail.load(std::memory_order_relaxed);
    last_seq_ = last_item_ = 0;
  }

  // Finds the kind of the next record without moving past it. Skips padding. False: there is no
  // record yet, or damage() has the reason why nothing after this point can be read.
  bool Peek(v1::RecordKind* kind);
  const std::string& damage() const { return damage_; }  // empty: none

  // Return the next record, which must be of that kind. Shape() stores the shape's keys.
  RowView Row() const;
  uint32_t Shape();
  ItemView Item() const;

  // Moves past the record that Peek() found.
  void Skip();
  uint64_t position() const { return position_; }

  // The keys of a shape whose record was read before.
  const std::vector<std::string>& Keys(uint32_t shape) const { return shapes_[shape]; }

 private:
  const std::byte* At() const { return spool_->data() + position_ % spool_->data_bytes(); }
  // Check the record at position_, whose header was read. `room`: bytes up to the head or the end
  // of the ring.
  bool IsWhole(uint64_t room) const;
  bool IsWholeShape() const;
  bool IsWholeRow() const;
  bool IsWholeItem() const;

  Spool* const spool_;  // outlives this
  uint64_t position_ = 0;
  uint64_t last_seq_ = 0;   // of the last row that Skip() passed; 0: none since Rewind()
  uint64_t last_item_ = 0;  // the same for items
  std::string damage_;
  v1::RecordHeader header_ = {};
  std::vector<std::vector<std::string>> shapes_{1};  // by id; survives Rewind()
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_RING_READER_H_
