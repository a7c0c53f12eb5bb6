// Builds the bytes of a spool file, valid or damaged.

#ifndef TESTS_SUPPORT_RING_IMAGE_H_
#define TESTS_SUPPORT_RING_IMAGE_H_

#include <string.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ranklog/v1/spool_layout.h"

namespace ranklog::testing {

template <typename T>
inline void Put(std::string* bytes, const T& value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Appends records from the start of the data; never frees any.
class RingImage {
 public:
  static constexpr size_t kRing = v1::kMinRingBytes;

  RingImage() : file_(v1::kSpoolDataOffset + kRing, '\0') {
    header().magic = v1::kSpoolMagic;
    header().version = v1::kSpoolVersion;
    header().header_bytes = v1::kSpoolHeaderBytes;
    header().data_offset = v1::kSpoolDataOffset;
    header().data_bytes = kRing;
    header().incarnation = 42;
    header().hello_bytes = 5;
    header().calibrations[0].base_unix_us = 1'000'000;
    header().calibrations[0].base_ticks = 100;
    header().calibrations[0].us_per_tick = 0.5;
    memcpy(file_.data() + v1::kSpoolHeaderBytes, "hello", 5);
  }

  v1::SpoolHeader& header() { return *reinterpret_cast<v1::SpoolHeader*>(file_.data()); }

  void Hello(const std::string& bytes) {
    header().hello_bytes = static_cast<uint32_t>(bytes.size());
    memcpy(file_.data() + v1::kSpoolHeaderBytes, bytes.data(), bytes.size());
  }
  // Appends a record at head. `body` follows the record's header.
  void Append(v1::RecordKind kind, uint16_t flags, std::string body) {
    body.resize((body.size() + 7) / 8 * 8);
    std::string record;
    Put(&record, v1::RecordHeader{static_cast<uint32_t>(sizeof(v1::RecordHeader) + body.size()),
                                  kind, flags});
    record += body;
    const uint64_t head = header().head.load();
    memcpy(file_.data() + v1::kSpoolDataOffset + head % kRing, record.data(), record.size());
    header().head = head + record.size();
  }
  void Shape(uint32_t id, const std::vector<std::string>& keys) {
    std::string names;
    for (const std::string& key : keys) {
      Put(&names, static_cast<uint32_t>(key.size()));
      names += key;
    }
    std::string body;
    for (uint32_t field :
         {id, static_cast<uint32_t>(keys.size()), static_cast<uint32_t>(names.size()), 0u}) {
      Put(&body, field);
    }
    Append(v1::RecordKind::kShape, 0, body + names);
  }
  void Row(uint64_t seq, int64_t step, const std::vector<double>& values) {
    v1::RowRecord row{};
    row.shape = 1;
    row.value_count = static_cast<uint32_t>(values.size());
    row.seq = seq;
    row.step = step;
    row.ticks = 100 + 2 * seq;
    std::string body;
    Put(&body, row);
    body.erase(0, sizeof(v1::RecordHeader));
    for (double value : values) Put(&body, value);
    header().rows = seq;
    Append(v1::RecordKind::kRow, 0, body);
  }
  void Item(uint64_t seq, uint64_t after_row, const std::string& content) {
    v1::ItemRecord item{};
    item.content_bytes = static_cast<uint32_t>(content.size());
    item.seq = seq;
    item.after_row = after_row;
    item.ticks = 100;
    std::string body;
    Put(&body, item);
    body.erase(0, sizeof(v1::RecordHeader));
    header().items = seq;
    Append(v1::RecordKind::kItem, 0, body + content);
  }
  // Overwrites 4 bytes of the data, at `offset` from its start.
  void Poke(size_t offset, uint32_t value) {
    memcpy(file_.data() + v1::kSpoolDataOffset + offset, &value, sizeof(value));
  }
  std::string& bytes() { return file_; }

 private:
  std::string file_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_RING_IMAGE_H_
