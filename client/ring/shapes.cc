#include "client/ring/shapes.h"

namespace ranklog::internal {
namespace {

uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 32);
}

uint64_t HashKeys(std::span<const std::string_view> keys) {
  uint64_t hash = keys.size();
  for (std::string_view key : keys) {
    hash = Mix(hash, key.size());
    size_t at = 0;
    for (; at + 8 <= key.size(); at += 8) {
      uint64_t word;
      std::memcpy(&word, key.data() + at, 8);
      hash = Mix(hash, word);
    }
    uint64_t rest = 0;
    if (at < key.size()) std::memcpy(&rest, key.data() + at, key.size() - at);
    hash = Mix(hash, rest);
  }
  return hash;
}

bool SameKeys(const Shape& shape, std::span<const std::string_view> keys) {
  if (shape.width() != keys.size()) return false;
  const char* bytes = shape.key_bytes.data();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].size() != shape.key_sizes[i]) return false;
    if (!SameBytes(keys[i].data(), bytes, keys[i].size())) return false;
    bytes += keys[i].size();
  }
  return true;
}

}  // namespace

ShapeTable::ShapeTable() : last_(&empty_) { empty_.next = &empty_; }

Shape* ShapeTable::Find(std::span<const std::string_view> keys) const {
  if (SameKeys(*guess(), keys)) return guess();
  const auto found = by_hash_.find(HashKeys(keys));
  if (found == by_hash_.end()) return nullptr;
  for (Shape* shape = found->second; shape != nullptr; shape = shape->same_hash) {
    if (SameKeys(*shape, keys)) return shape;
  }
  return nullptr;
}

Shape* ShapeTable::Add(std::span<const std::string_view> keys) {
  // Operations that may throw come before the changes that must stay consistent.
  Shape*& head = by_hash_[HashKeys(keys)];
  auto shape = std::make_unique<Shape>();
  shape->id = static_cast<uint32_t>(shapes_.size() + 1);
  shape->next = shape.get();
  for (std::string_view key : keys) {
    shape->key_sizes.push_back(static_cast<uint16_t>(key.size()));
    shape->key_bytes.append(key);
  }
  shape->same_hash = head;
  shapes_.push_back(std::move(shape));
  head = shapes_.back().get();
  key_bytes_ += 4 * keys.size() + head->key_bytes.size();
  return head;
}

}  // namespace ranklog::internal
