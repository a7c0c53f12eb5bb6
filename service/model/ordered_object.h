// The object type of our JSON: members in the order of insertion, found by key in constant time.
// The JSON library's own ordered object searches linearly, which takes seconds for the summary of a
// run with 100,000 metrics.
//
// tsl::ordered_map (Debian's libtsl-ordered-map-dev) is similar, but does not fit. Its iterators
// give constant values, but the JSON library binds references to them. It also has no key_compare.

#ifndef SERVICE_MODEL_ORDERED_OBJECT_H_
#define SERVICE_MODEL_ORDERED_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace ranklog::model {

// Implements the ObjectType of nlohmann::basic_json. As with std::vector, an insertion invalidates
// iterators and references. Two objects are equal if they have equal members in the same order.
template <class Key, class T, class Compare, class Allocator>
class OrderedObject {
 public:
  using key_type = Key;
  using mapped_type = T;
  using value_type = std::pair<const Key, T>;
  using key_compare = std::equal_to<>;
  using Entries = std::vector<value_type, Allocator>;
  using iterator = typename Entries::iterator;
  using const_iterator = typename Entries::const_iterator;
  using size_type = size_t;

  OrderedObject() = default;
  OrderedObject(std::initializer_list<value_type> members)
      : OrderedObject(members.begin(), members.end()) {}
  template <class Input>
  OrderedObject(Input first, Input last) {
    insert(first, last);
  }

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  const_iterator cbegin() const { return entries_.begin(); }
  const_iterator cend() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  size_type size() const { return entries_.size(); }
  size_type max_size() const { return entries_.max_size(); }
  size_type capacity() const { return entries_.capacity(); }

  iterator find(std::string_view key) { return entries_.begin() + PositionOf(key); }
  const_iterator find(std::string_view key) const { return entries_.begin() + PositionOf(key); }
  size_type count(std::string_view key) const { return find(key) == end() ? 0 : 1; }

  // Returns the key's member, and whether it was inserted. An existing member is not changed.
  template <class K, class V>
  std::pair<iterator, bool> emplace(K&& key, V&& value) {
    const iterator there = find(key);
    if (there != end()) return {there, false};
    entries_.emplace_back(std::forward<K>(key), std::forward<V>(value));
    IndexLast();
    return {std::prev(end()), true};
  }
  template <class K>
  T& operator[](K&& key) {
    return emplace(std::forward<K>(key), T()).first->second;
  }
  std::pair<iterator, bool> insert(const value_type& member) {
    return emplace(member.first, member.second);
  }
  template <class Input>
  void insert(Input first, Input last) {
    for (; first != last; ++first) emplace(first->first, first->second);
  }

  void clear() {
    entries_.clear();
    slots_.clear();
  }
  size_type erase(std::string_view key) {
    const iterator there = find(key);
    if (there == end()) return 0;
    erase(there, std::next(there));
    return 1;
  }
  iterator erase(iterator member) { return erase(member, std::next(member)); }
  // Linear in the number of members, because keys cannot be moved.
  iterator erase(iterator first, iterator last) {
    const auto place = first - begin();
    Entries kept;
    kept.reserve(size());
    for (iterator member = begin(); member != end(); ++member) {
      if (member < first || member >= last) kept.push_back(std::move(*member));
    }
    entries_.swap(kept);
    Index();
    return begin() + place;
  }

  friend bool operator==(const OrderedObject& a, const OrderedObject& b) {
    return a.entries_ == b.entries_;
  }
  friend bool operator<(const OrderedObject& a, const OrderedObject& b) {
    return a.entries_ < b.entries_;
  }

 private:
  using Difference = typename Entries::difference_type;

  static constexpr size_t kIndexedFrom = 16;  // below this, a linear search is as fast

  // The position of the key's member; size() if there is none.
  Difference PositionOf(std::string_view key) const {
    size_t place = 0;
    if (slots_.empty()) {
      while (place < size() && entries_[place].first != key) ++place;
    } else {
      size_t slot = SlotOf(key);
      while (slots_[slot] != 0 && entries_[slots_[slot] - 1].first != key) slot = Next(slot);
      place = slots_[slot] == 0 ? size() : slots_[slot] - 1;
    }
    return static_cast<Difference>(place);
  }
  size_t SlotOf(std::string_view key) const {
    return std::hash<std::string_view>()(key) & (slots_.size() - 1);
  }
  size_t Next(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }

  void IndexLast() {
    if (size() < kIndexedFrom) return;
    if (size() * 2 > slots_.size()) return Index();
    Put(size() - 1);
  }
  void Index() {
    slots_.clear();
    if (size() < kIndexedFrom) return;
    size_t slots = 4 * kIndexedFrom;
    while (slots < 4 * size()) slots *= 2;
    slots_.resize(slots);
    for (size_t place = 0; place < size(); ++place) Put(place);
  }
  void Put(size_t place) {
    size_t slot = SlotOf(entries_[place].first);
    while (slots_[slot] != 0) slot = Next(slot);
    slots_[slot] = static_cast<uint32_t>(place + 1);
  }

  Entries entries_;
  // A hash table with linear probing. A slot is 0, or one more than the position of a member. Empty
  // while there are few members, else at most half full. The size is a power of two.
  std::vector<uint32_t> slots_;
};

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_ORDERED_OBJECT_H_
