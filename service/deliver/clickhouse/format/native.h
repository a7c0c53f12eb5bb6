// Blocks in ClickHouse's format Native: the rows of an insert, column by column. The server takes one
// such block as one part, so an insert is stored as a whole or not at all.

#ifndef SERVICE_DELIVER_CLICKHOUSE_FORMAT_NATIVE_H_
#define SERVICE_DELIVER_CLICKHOUSE_FORMAT_NATIVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ranklog::deliver::clickhouse {

// The texts of a column with few different ones (LowCardinality): each text once, and its index per
// row.
class Dictionary {
 public:
  // The index of `text`, which is added if it is new.
  uint32_t IndexOf(const std::string& text);

  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_ = {""};  // the server expects the default first
  std::unordered_map<std::string, uint32_t> index_ = {{"", 0}};
};

// Writes one block. Each column must have `rows` elements.
//
// Source: ClickHouse's src/Formats/NativeWriter.cpp and
// src/DataTypes/Serializations/SerializationLowCardinality.cpp, at revision 0, which HTTP uses.
class NativeBlock {
 public:
  // `sink` gets the block piece by piece.
  using Sink = std::function<void(absl::string_view piece)>;
  NativeBlock(size_t columns, size_t rows, Sink sink);
  ~NativeBlock() { Flush(); }
  // Hands over the rest; the destructor does it, too.
  void Flush();
  NativeBlock(const NativeBlock&) = delete;
  NativeBlock& operator=(const NativeBlock&) = delete;

  void Add(absl::string_view name, absl::Span<const uint8_t> values);         // UInt8
  void Add(absl::string_view name, absl::Span<const uint32_t> values);        // UInt32
  void Add(absl::string_view name, absl::Span<const uint64_t> values);        // UInt64
  void Add(absl::string_view name, absl::Span<const int64_t> values);         // Int64
  void Add(absl::string_view name, absl::Span<const double> values);          // Float64
  void AddTimes(absl::string_view name, absl::Span<const int64_t> times_us);  // DateTime64(6)
  void Add(absl::string_view name, absl::Span<const std::string> texts);      // String
  void Add(absl::string_view name, const Dictionary& texts, absl::Span<const uint32_t> indexes);
  // A column with few different numbers: row i has the number numbers[indexes[i]]. As LowCardinality,
  // which the server converts: one byte per row, so there is less to compress.
  void AddFew(absl::string_view name, absl::Span<const uint32_t> numbers,
              absl::Span<const uint32_t> indexes);
  void AddFew(absl::string_view name, absl::Span<const uint64_t> numbers,
              absl::Span<const uint32_t> indexes);
  // The same text in each row, as LowCardinality.
  void AddConstant(absl::string_view name, const std::string& text);

 private:
  void Header(absl::string_view name, absl::string_view type);
  void Varint(uint64_t value);
  void Text(absl::string_view text);
  void Bytes(const void* data, size_t size);
  void Number(uint64_t value) { Bytes(&value, sizeof value); }
  void DictionaryHeader(size_t size);
  void Indexes(size_t size, absl::Span<const uint32_t> indexes);
  template <typename T>
  void Narrow(absl::Span<const uint32_t> indexes);
  template <typename T>
  void Few(absl::string_view name, absl::string_view type, absl::Span<const T> numbers,
           absl::Span<const uint32_t> indexes);

  const size_t rows_;
  const Sink sink_;
  std::string out_;  // not in the sink yet
};

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_FORMAT_NATIVE_H_
