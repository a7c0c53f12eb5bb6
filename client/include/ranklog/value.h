#ifndef RANKLOG_VALUE_H_
#define RANKLOG_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ranklog/c.h"
#include "ranklog/compiler.h"

namespace ranklog {
inline namespace RANKLOG_LAYOUT {

// A value of a row, of a run's config or of its summary: null, a bool, an integer, a floating-point
// number, a string, a list, or an object.
//
//   run.Config({{"lr", 3e-4}, {"model", ranklog::Value::Object({{"layers", 12}})}});
//
// Strings must be UTF-8. A null pointer, which getenv() may return, becomes an empty string.
// Integers from -2^63 to 2^64 - 1 are exact; others become the nearest double. Lists and objects may
// be nested kMaxValueDepth levels deep; the limit bounds the recursion of readers.
class Value {
 public:
  using Field = std::pair<std::string, Value>;

  Value() noexcept : field_{} { field_.kind = RANKLOG_NULL; }
  // Only from bool itself: a pointer would convert to bool.
  template <typename T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  Value(T flag) noexcept : field_{} {
    field_.kind = RANKLOG_FLAG;
    field_.flag = flag;
  }
  template <typename T,
            std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Value(T integer) noexcept : field_{} {
    SetInteger(integer);
  }
  template <typename T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
  Value(T number) noexcept : field_{} {
    field_.number = static_cast<double>(number);
  }
  Value(const char* text) : Value(std::string_view(text == nullptr ? "" : text)) {}
  Value(const std::string& text) : Value(std::string_view(text)) {}
  Value(std::string_view text) : Value() { SetText(text.data(), text.size(), &field_); }
  static Value List(std::vector<Value> values) {
    Value list;
    if (Block* const block = NewBlock(values.size(), [](size_t) { return std::string_view(); })) {
      for (size_t i = 0; i < block->size; ++i) values[i].MoveTo(&block->items()[i]);
      list.field_.items = block->items();
      list.field_.size = block->size;
    }
    list.field_.kind = RANKLOG_LIST;
    return list;
  }
  static Value Object(std::vector<Field> fields) {
    Value object;
    const auto key = [&](size_t i) { return std::string_view(fields[i].first); };
    if (Block* const block = NewBlock(fields.size(), key)) {
      for (size_t i = 0; i < block->size; ++i) fields[i].second.MoveTo(&block->items()[i]);
      object.field_.items = block->items();
      object.field_.size = block->size;
    }
    object.field_.kind = RANKLOG_OBJECT;
    return object;
  }

  Value(const Value& other) : Value() {
    if (other.OwnsMemory()) {
      CopyTree(other.field_);
    } else {
      field_ = other.field_;
    }
  }
  Value(Value&& other) noexcept : Value() { std::swap(field_, other.field_); }
  Value& operator=(Value other) noexcept {
    std::swap(field_, other.field_);
    return *this;
  }
  ~Value() {
    if (OwnsMemory()) FreeTree(&field_);
  }

  // The value, without a key. Lives as long as this object, and its texts and items, too.
  // RANKLOG_UNSIGNED only above the range of int64_t.
  const ranklog_field& field() const noexcept { return field_; }

 private:
  // The items of a list or an object, followed by their keys. Their texts and blocks belong to it.
  struct Block {
    Block* next;                  // in a list of blocks to copy or to free
    const ranklog_field* source;  // copy the items from here
    size_t size;                  // number of items, at least 1
    ranklog_field* items() { return reinterpret_cast<ranklog_field*>(this + 1); }
  };

  // Null if `size` is 0. The items are null values with the keys `key_of(i)`.
  template <typename KeyOf>
  static Block* NewBlock(size_t size, const KeyOf& key_of) {
    if (size == 0) return nullptr;
    size_t key_bytes = 0;
    for (size_t i = 0; i < size; ++i) key_bytes += key_of(i).size();
    void* const memory = ::operator new(sizeof(Block) + size * sizeof(ranklog_field) + key_bytes);
    Block* const block = new (memory) Block{nullptr, nullptr, size};
    char* key = reinterpret_cast<char*>(block->items() + size);
    for (size_t i = 0; i < size; ++i) {
      const std::string_view from = key_of(i);
      ranklog_field* const item = new (block->items() + i) ranklog_field{};
      item->kind = RANKLOG_NULL;
      item->key = key;
      item->key_bytes = from.size();
      if (!from.empty()) std::memcpy(key, from.data(), from.size());
      key += from.size();
    }
    return block;
  }

  static bool HasItems(const ranklog_field& field) noexcept {
    return (field.kind == RANKLOG_LIST || field.kind == RANKLOG_OBJECT) && field.size > 0;
  }
  static Block* BlockOf(const ranklog_field& field) noexcept {
    return reinterpret_cast<Block*>(const_cast<ranklog_field*>(field.items)) - 1;
  }
  bool OwnsMemory() const noexcept {
    return (field_.kind == RANKLOG_TEXT && field_.size > 0) || HasItems(field_);
  }

  // Sets the value of `to`, which owns nothing yet, but not its key.
  static void SetValue(const ranklog_field& from, ranklog_field* to) noexcept {
    const char* const key = to->key;
    const size_t key_bytes = to->key_bytes;
    *to = from;
    to->key = key;
    to->key_bytes = key_bytes;
  }
  void MoveTo(ranklog_field* to) noexcept {
    SetValue(field_, to);
    field_ = Value().field_;
  }
  static void SetText(const char* text, size_t size, ranklog_field* to) {
    const char* copy = "";
    if (size > 0) copy = static_cast<char*>(std::memcpy(::operator new(size), text, size));
    to->text = copy;
    to->size = size;
    to->kind = RANKLOG_TEXT;
  }
  template <typename T>
  void SetInteger(T integer) noexcept {
    const auto narrow = static_cast<int64_t>(integer);
    const auto wide = static_cast<uint64_t>(integer);
    if (static_cast<T>(narrow) == integer && (std::is_signed_v<T> || narrow >= 0)) {
      field_.kind = RANKLOG_SIGNED;
      field_.signed_integer = narrow;
    } else if (static_cast<T>(wide) == integer && integer > 0) {
      field_.kind = RANKLOG_UNSIGNED;
      field_.unsigned_integer = wide;
    } else {
      field_.number = static_cast<double>(integer);
    }
  }

  // These two use no recursion, because a value may be deeper than the stack. If an allocation
  // fails, what is copied so far is freed with this object.
  void CopyTree(const ranklog_field& from) {
    Block* rest = nullptr;
    CopyItem(from, &field_, &rest);
    while (rest != nullptr) {
      Block* const block = rest;
      rest = block->next;
      for (size_t i = 0; i < block->size; ++i) {
        CopyItem(block->source[i], &block->items()[i], &rest);
      }
    }
  }
  static void CopyItem(const ranklog_field& from, ranklog_field* to, Block** rest) {
    if (from.kind == RANKLOG_TEXT) {
      SetText(from.text, from.size, to);
    } else if (HasItems(from)) {
      Block* const block = NewBlock(from.size, [&](size_t i) {
        return std::string_view(from.items[i].key, from.items[i].key_bytes);
      });
      block->source = from.items;
      block->next = *rest;
      *rest = block;
      to->items = block->items();
      to->size = from.size;
      to->kind = from.kind;
    } else {
      SetValue(from, to);
    }
  }
  static void FreeTree(ranklog_field* field) noexcept {
    Block* rest = nullptr;
    FreeItem(*field, &rest);
    while (rest != nullptr) {
      Block* const block = rest;
      rest = block->next;
      for (size_t i = 0; i < block->size; ++i) FreeItem(block->items()[i], &rest);
      ::operator delete(block);
    }
  }
  static void FreeItem(const ranklog_field& item, Block** rest) noexcept {
    if (item.kind == RANKLOG_TEXT && item.size > 0) ::operator delete(const_cast<char*>(item.text));
    if (!HasItems(item)) return;
    Block* const block = BlockOf(item);
    block->next = *rest;
    *rest = block;
  }

  ranklog_field field_;
};

inline constexpr int kMaxValueDepth = 32;

// One metric of a row: a key and a value. Refers to the key, and to a string or a Value, which must
// live until the call returns. A Value may be a temporary in the arguments of the call:
//
//   run.Log({{"loss", loss}, {"done", true}, {"eval", Value::Object({{"bleu", 31.2}})}});
//
// Numbers and integers up to 2^53 are logged as doubles, which is the fast path. Bools, larger
// integers, null, lists and objects are logged as they are. Statistics over ranks, and the
// statistics of DefineMetric(), are only made of doubles. A null pointer becomes an empty string.
//
// A key has 1 to 1024 bytes of UTF-8. Ranklog and the trackers keep data of their own in the row
// under _step, _timestamp, _runtime and _wandb, so these keys cannot be logged.
//
// It is a ranklog_field without members of its own, so that a list of metrics is passed to the
// library as it is.
struct Metric : ranklog_field {
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Metric(std::string_view metric_key, T value) noexcept {
    SetKey(metric_key);
    kind = RANKLOG_NUMBER;
    size = 0;
    if constexpr (std::is_same_v<T, bool>) {
      kind = RANKLOG_FLAG;
      flag = value;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) >= sizeof(int64_t)) {
      SetInteger(value);
    } else {
      number = static_cast<double>(value);
    }
  }
  Metric(std::string_view metric_key, std::string_view value) noexcept {
    SetKey(metric_key);
    kind = RANKLOG_TEXT;
    text = value.data() == nullptr ? "" : value.data();
    size = value.size();
  }
  Metric(std::string_view metric_key, const char* value) noexcept
      : Metric(metric_key, value == nullptr ? std::string_view() : std::string_view(value)) {}
  Metric(std::string_view metric_key, const std::string& value) noexcept
      : Metric(metric_key, std::string_view(value)) {}
  Metric(std::string_view metric_key, const Value& value) noexcept : ranklog_field(value.field()) {
    SetKey(metric_key);
    if (kind == RANKLOG_SIGNED) SetInteger(signed_integer);
  }

 private:
  void SetKey(std::string_view metric_key) noexcept {
    key = metric_key.data();
    key_bytes = metric_key.size();
  }
  template <typename T>
  void SetInteger(T integer) noexcept {
    constexpr auto kExact = static_cast<T>(int64_t{1} << 53);
    if (integer <= kExact && (!std::is_signed_v<T> || integer >= static_cast<T>(-kExact))) {
      kind = RANKLOG_NUMBER;
      number = static_cast<double>(integer);
    } else if (std::is_signed_v<T> && integer == static_cast<T>(static_cast<int64_t>(integer))) {
      kind = RANKLOG_SIGNED;
      signed_integer = static_cast<int64_t>(integer);
    } else if (integer > 0 && integer == static_cast<T>(static_cast<uint64_t>(integer))) {
      kind = RANKLOG_UNSIGNED;
      unsigned_integer = static_cast<uint64_t>(integer);
    } else {
      kind = RANKLOG_NUMBER;
      number = static_cast<double>(integer);
    }
  }
};
static_assert(sizeof(Metric) == sizeof(ranklog_field) && std::is_trivially_copyable_v<Metric>,
              "a list of metrics is passed as a list of ranklog_field");

inline constexpr size_t kMaxKeyBytes = 1024;

}  // namespace RANKLOG_LAYOUT
}  // namespace ranklog

#endif  // RANKLOG_VALUE_H_
