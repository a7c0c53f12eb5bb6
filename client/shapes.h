// The shapes of the rows that one ring carries. A shape is the ordered list of the keys of a row's
// numbers; a row that repeats one costs a comparison of its keys and no lookup, as long as rows
// follow one another in the order of the last time.

#ifndef CLIENT_SHAPES_H_
#define CLIENT_SHAPES_H_

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
  uint32_t id = 0;  // of the ring, from 1; 0: the shape without keys
  std::vector<uint16_t> key_sizes;
  std::string key_bytes;  // of all keys, without separators
  std::vector<const std::string*>
      handles;            // to the same keys; empty until they were logged by handles
  Shape* next = nullptr;  // the shape of the row that followed last time
  Shape* same_hash = nullptr;

  size_t width() const { return key_sizes.size(); }
};

// Equal bytes? Inline, because a call of memcmp costs more than comparing a usual key. Words that
// overlap, so that a key of up to 32 bytes takes one branch on its size and one on its bytes.
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

// Owned by the writer of a ring; for one thread at a time.
class ShapeTable {
 public:
  ShapeTable();

  // The shape with these keys, or null. Allocates nothing.
  Shape* Find(std::span<const std::string_view> keys) const;

  // Adds the shape with these keys, which are valid, distinct and not there. Its id is the next
  // one.
  Shape* Add(std::span<const std::string_view> keys);

  // What the next row probably looks like; never null.
  Shape* guess() const { return last_->next; }
  // Says what it did look like.
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

#endif  // CLIENT_SHAPES_H_
