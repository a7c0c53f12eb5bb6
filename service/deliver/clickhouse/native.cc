#include "service/deliver/clickhouse/native.h"

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

NativeBlock::NativeBlock(size_t columns, size_t rows) : rows_(rows) {
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

void NativeBlock::DictionaryHeader(absl::string_view name, absl::Span<const std::string> texts) {
  constexpr uint64_t kVersion = 1;
  constexpr uint64_t kHasTexts = 1 << 9;
  constexpr uint64_t kIsNew = 1 << 10;
  Header(name, "LowCardinality(String)");
  Number(kVersion);
  Number(IndexType(texts.size()) | kHasTexts | kIsNew);
  Number(texts.size());
  for (const std::string& text : texts) Text(text);
  Number(rows_);
}

void NativeBlock::Add(absl::string_view name, const Dictionary& texts,
                      absl::Span<const uint32_t> indexes) {
  DictionaryHeader(name, texts.texts());
  switch (IndexType(texts.texts().size())) {
    case 0:
      for (const uint32_t index : indexes) out_.push_back(static_cast<char>(index));
      break;
    case 1:
      for (const uint32_t index : indexes) {
        const auto narrow = static_cast<uint16_t>(index);
        Bytes(&narrow, sizeof narrow);
      }
      break;
    default:
      Bytes(indexes.data(), indexes.size() * sizeof(uint32_t));
  }
}

void NativeBlock::AddConstant(absl::string_view name, const std::string& text) {
  const bool is_default = text.empty();
  DictionaryHeader(name,
                   is_default ? std::vector<std::string>{""} : std::vector<std::string>{"", text});
  out_.append(rows_, is_default ? '\0' : '\1');
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
  out_.append(static_cast<const char*>(data), size);
}

}  // namespace ranklog::deliver::clickhouse
