// Reads the records of one ring in order, as the sender does: whole ones, in place.

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
  void Rewind() { position_ = spool_->header()->tail.load(std::memory_order_relaxed); }

  // The next record's kind, without going past it; padding is passed over. False: there is none
  // yet.
  bool Peek(v1::RecordKind* kind);

  // The next record, which is of that kind. The shape's keys are remembered.
  RowView Row() const;
  uint32_t Shape();
  std::string_view Control() const;

  // Goes past the record that Peek() saw.
  void Skip() { position_ += header_.bytes; }
  uint64_t position() const { return position_; }

  // The keys of a shape whose record was read.
  const std::vector<std::string>& Keys(uint32_t shape) const { return shapes_[shape]; }
  size_t shapes() const { return shapes_.size(); }

 private:
  const std::byte* At() const { return spool_->data() + position_ % spool_->data_bytes(); }

  Spool* const spool_;  // outlives this
  uint64_t position_ = 0;
  v1::RecordHeader header_ = {};
  std::vector<std::vector<std::string>> shapes_{1};  // by id; survives Rewind()
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_READER_H_
