// Reads the records of one ring in order, as the sender does: whole ones, in place. The ring lies
// in memory that the trainer's own bugs can overwrite, so a record is checked before it is used.

#ifndef CLIENT_RING_READER_H_
#define CLIENT_RING_READER_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "client/spool.h"

namespace ranklog::internal {

// A row in the ring; valid until its record is freed.
struct RowView {
  v1::RowRecord record;
  const double* values;    // record.value_count of them
  std::string_view texts;  // see ForEachText()

  bool commits() const { return (record.header.flags & v1::kRowCommits) != 0; }
  bool counted() const { return (record.header.flags & v1::kRowCounted) != 0; }
};

template <typename Fn>  // fn(key, text)
void ForEachText(const RowView& row, Fn&& fn) {
  std::string_view rest = row.texts;
  for (uint32_t i = 0; i < row.record.text_count; ++i) {
    uint32_t sizes[2];
    std::memcpy(sizes, rest.data(), sizeof sizes);
    fn(rest.substr(sizeof sizes, sizes[0]), rest.substr(sizeof sizes + sizes[0], sizes[1]));
    rest.remove_prefix(sizeof sizes + sizes[0] + sizes[1]);
  }
}

// For one thread, which also moves the header's tail; positions count bytes since the ring was
// made, as head and tail do.
class RingReader {
 public:
  explicit RingReader(Spool* spool) : spool_(spool) {}

  // Goes back to the oldest record that is not freed.
  void Rewind() {
    position_ = spool_->header()->tail.load(std::memory_order_relaxed);
    last_seq_ = 0;
  }

  // The next record's kind, without going past it; padding is passed over. False: there is none
  // yet, or damage() says why nothing can be read from here on.
  bool Peek(v1::RecordKind* kind);
  const std::string& damage() const { return damage_; }  // empty: none

  // The next record, which is of that kind. The shape's keys are remembered.
  RowView Row() const;
  uint32_t Shape();
  std::string_view Control() const;

  // Goes past the record that Peek() saw.
  void Skip();
  uint64_t position() const { return position_; }

  // The keys of a shape whose record was read.
  const std::vector<std::string>& Keys(uint32_t shape) const { return shapes_[shape]; }
  size_t shapes() const { return shapes_.size(); }

 private:
  const std::byte* At() const { return spool_->data() + position_ % spool_->data_bytes(); }
  // Of the record at position_, whose header was read; `room`: bytes up to the head or the ring's
  // end.
  bool IsWhole(uint64_t room) const;
  bool IsWholeShape() const;
  bool IsWholeRow() const;

  Spool* const spool_;  // outlives this
  uint64_t position_ = 0;
  uint64_t last_seq_ = 0;  // of the last row that was skipped; 0: none since Rewind()
  std::string damage_;
  v1::RecordHeader header_ = {};
  std::vector<std::vector<std::string>> shapes_{1};  // by id; survives Rewind()
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_READER_H_
