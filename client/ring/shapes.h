// The shapes of the rows in one ring. A shape is the ordered list of the keys of a row's numbers. A
// row with the expected shape costs a comparison of its keys and no lookup. The expected shape is
// the one that followed the previous row's shape last time.

#ifndef CLIENT_RING_SHAPES_H_
#define CLIENT_RING_SHAPES_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace ranklog::internal {

struct Shape {
  uint32_t id = 0;  // counts from 1 in the ring; 0: the shape without keys
  std::vector<uint16_t> key_sizes;
  std::string key_bytes;  // of all keys, without separators
  // Handles of the same keys; empty until logged by handles.
  std::vector<const std::string*> handles;
  Shape* next = nullptr;  // the shape of the row that followed last time
  Shape* same_hash = nullptr;

  size_t width() const { return key_sizes.size(); }
};

// Whether the bytes are equal. Inline, because a call of memcmp costs more than the comparison of a
// usual key. Compares overlapping words, so that a key of up to 32 bytes takes one branch on its
// size and one on its bytes.
inline bool SameBytes(const char* a, const char* b, size_t size) {
  const auto differ = [a, b]<typename Word>(size_t at, Word) {
    Word x, y;
    std::memcpy(&x, a + at, sizeof x);
    std::memcpy(&y, b + at, sizeof y);
    return x ^ y;
  };
  const auto differ8 = [&](size_t at) { return differ(at, uint64_t{}); };
  const auto differ16 = [&](size_t at) { return differ8(at) | differ8(at + 8); };
  const auto differ32 = [&](size_t at) { return differ16(at) | differ16(at + 16); };
  if (size - 8 <= 8) return (differ8(0) | differ8(size - 8)) == 0;
  if (size < 8) {
    if (size >= 4) return (differ(0, uint32_t{}) | differ(size - 4, uint32_t{})) == 0;
    return size == 0 || (a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1]);
  }
  if (size <= 32) return (differ16(0) | differ16(size - 16)) == 0;
  for (size_t at = 0; at + 32 < size; at += 32) {
    if (differ32(at) != 0) return false;
  }
  return differ32(size - 32) == 0;
}

// Owned by a ring's writer. For one thread at a time.
class ShapeTable {
 public:
  ShapeTable();

  // The shape with these keys, or null. Does not allocate.
  Shape* Find(std::span<const std::string_view> keys) const;

  // Adds the shape with these keys, and gives it the next id. The keys must be valid, distinct and
  // not in the table.
  Shape* Add(std::span<const std::string_view> keys);

  // The expected shape of the next row. Never null.
  Shape* guess() const { return last_->next; }
  // Records the shape that the row had.
  void Follow(Shape* shape) {
    last_->next = shape;
    last_ = shape;
  }
  Shape* empty() { return &empty_; }
  size_t size() const { return shapes_.size(); }
  size_t key_bytes() const { return key_bytes_; }  // of all shapes, each key and 4 bytes

 private:
  Shape empty_;
  Shape* last_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  size_t key_bytes_ = 0;
  absl::flat_hash_map<uint64_t, Shape*> by_hash_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_SHAPES_H_
