#include "service/deliver/clickhouse/format/native.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ranklog::deliver::clickhouse {
namespace {

// The size of an index of a dictionary, as the server chooses it: 0 one byte, 1 two, 2 four.
uint64_t IndexType(size_t texts) {
  if (texts <= std::numeric_limits<uint8_t>::max()) return 0;
  return texts <= std::numeric_limits<uint16_t>::max() ? 1 : 2;
}

}  // namespace

uint32_t Dictionary::IndexOf(const std::string& text) {
  const auto [found, is_new] = index_.emplace(text, static_cast<uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(text);
  return found->second;
}

NativeBlock::NativeBlock(size_t columns, size_t rows, Sink sink)
    : rows_(rows), sink_(std::move(sink)) {
  Varint(columns);
  Varint(rows);
}

void NativeBlock::Add(absl::string_view name, absl::Span<const uint8_t> values) {
  Header(name, "UInt8");
  Bytes(values.data(), values.size());
}

void NativeBlock::Add(absl::string_view name, absl::Span<const uint32_t> values) {
  Header(name, "UInt32");
  Bytes(values.data(), values.size() * sizeof(uint32_t));
}

void NativeBlock::Add(absl::string_view name, absl::Span<const uint64_t> values) {
  Header(name, "UInt64");
  Bytes(values.data(), values.size() * sizeof(uint64_t));
}

void NativeBlock::Add(absl::string_view name, absl::Span<const int64_t> values) {
  Header(name, "Int64");
  Bytes(values.data(), values.size() * sizeof(int64_t));
}

void NativeBlock::Add(absl::string_view name, absl::Span<const double> values) {
  Header(name, "Float64");
  Bytes(values.data(), values.size() * sizeof(double));
}

void NativeBlock::AddTimes(absl::string_view name, absl::Span<const int64_t> times_us) {
  Header(name, "DateTime64(6)");
  Bytes(times_us.data(), times_us.size() * sizeof(int64_t));
}

void NativeBlock::Add(absl::string_view name, absl::Span<const std::string> texts) {
  Header(name, "String");
  for (const std::string& text : texts) Text(text);
}

void NativeBlock::DictionaryHeader(size_t size) {
  constexpr uint64_t kVersion = 1;
  constexpr uint64_t kHasKeys = 1 << 9;
  constexpr uint64_t kIsNew = 1 << 10;
  Number(kVersion);
  Number(IndexType(size) | kHasKeys | kIsNew);
  Number(size);
}

template <typename T>
void NativeBlock::Narrow(absl::Span<const uint32_t> indexes) {
  const std::vector<T> narrow(indexes.begin(), indexes.end());
  Bytes(narrow.data(), narrow.size() * sizeof(T));
}

void NativeBlock::Indexes(size_t size, absl::Span<const uint32_t> indexes) {
  Number(rows_);
  switch (IndexType(size)) {
    case 0:
      Narrow<uint8_t>(indexes);
      break;
    case 1:
      Narrow<uint16_t>(indexes);
      break;
    default:
      Bytes(indexes.data(), indexes.size() * sizeof(uint32_t));
  }
}

void NativeBlock::Add(absl::string_view name, const Dictionary& texts,
                      absl::Span<const uint32_t> indexes) {
  Header(name, "LowCardinality(String)");
  DictionaryHeader(texts.texts().size());
  for (const std::string& text : texts.texts()) Text(text);
  Indexes(texts.texts().size(), indexes);
}

template <typename T>
void NativeBlock::Few(absl::string_view name, absl::string_view type, absl::Span<const T> numbers,
                      absl::Span<const uint32_t> indexes) {
  std::vector<T> keys = {0};  // each once; the server expects the default first
  std::vector<uint32_t> key_of(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto found = std::find(keys.begin(), keys.end(), numbers[i]);
    key_of[i] = static_cast<uint32_t>(found - keys.begin());
    if (found == keys.end()) keys.push_back(numbers[i]);
  }
  Header(name, type);
  DictionaryHeader(keys.size());
  Bytes(keys.data(), keys.size() * sizeof(T));
  std::vector<uint32_t> mapped(indexes.size());
  for (size_t i = 0; i < indexes.size(); ++i) mapped[i] = key_of[indexes[i]];
  Indexes(keys.size(), mapped);
}

void NativeBlock::AddFew(absl::string_view name, absl::Span<const uint32_t> numbers,
                         absl::Span<const uint32_t> indexes) {
  Few(name, "LowCardinality(UInt32)", numbers, indexes);
}

void NativeBlock::AddFew(absl::string_view name, absl::Span<const uint64_t> numbers,
                         absl::Span<const uint32_t> indexes) {
  Few(name, "LowCardinality(UInt64)", numbers, indexes);
}

void NativeBlock::AddConstant(absl::string_view name, const std::string& text) {
  Dictionary one;
  const uint32_t index = one.IndexOf(text);
  Add(name, one, std::vector<uint32_t>(rows_, index));
}

void NativeBlock::Header(absl::string_view name, absl::string_view type) {
  Text(name);
  Text(type);
}

void NativeBlock::Varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
  out_.push_back(static_cast<char>(value));
}

void NativeBlock::Text(absl::string_view text) {
  Varint(text.size());
  out_.append(text.data(), text.size());
}

// The format is little-endian, as all machines that we build for.
void NativeBlock::Bytes(const void* data, size_t size) {
  constexpr size_t kLarge = 64 << 10;
  const absl::string_view bytes(static_cast<const char*>(data), size);
  if (size >= kLarge) {
    Flush();
    sink_(bytes);
    return;
  }
  out_.append(bytes.data(), bytes.size());
  if (out_.size() >= 2 * kLarge) Flush();
}

void NativeBlock::Flush() {
  if (!out_.empty()) sink_(out_);
  out_.clear();
}

}  // namespace ranklog::deliver::clickhouse
