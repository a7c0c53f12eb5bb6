#include "service/import/records/record_values.h"

#include <google/protobuf/wire_format_lite.h>

#include "service/base/text/utf8.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::imports {
namespace {

using google::protobuf::internal::WireFormatLite;
using wandb_internal::Record;

// The fields of a serialized message, one after the other. The format:
// https://protobuf.dev/programming-guides/encoding
class Fields {
 public:
  explicit Fields(absl::string_view message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  // Reads the next field. False: there are no more, or the message is damaged.
  bool Next() {
    if (at_ == end_) return false;
    uint64_t tag = 0;
    uint64_t size = 0;
    if (!ReadVarint(&tag)) return Damaged();
    number_ = static_cast<int>(tag >> 3);
    has_bytes_ = false;
    switch (tag & 7) {
      case WireFormatLite::WIRETYPE_VARINT:
        return (number_ > 0 && ReadVarint(&integer_)) || Damaged();
      case WireFormatLite::WIRETYPE_FIXED64:
        size = 8;
        break;
      case WireFormatLite::WIRETYPE_FIXED32:
        size = 4;
        break;
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        if (!ReadVarint(&size)) return Damaged();
        has_bytes_ = true;
        break;
      default:  // groups, which these messages have not
        return Damaged();
    }
    if (number_ == 0 || size > static_cast<uint64_t>(end_ - at_)) return Damaged();
    bytes_ = absl::string_view(at_, size);
    at_ += size;
    return true;
  }
  int number() const { return number_; }
  bool has_bytes() const { return has_bytes_; }
  absl::string_view bytes() const { return bytes_; }                  // of a field that has bytes
  int64_t integer() const { return static_cast<int64_t>(integer_); }  // of another field
  bool damaged() const { return damaged_; }

 private:
  bool ReadVarint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const auto byte = static_cast<uint8_t>(*at_++);
      *value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Damaged() {
    damaged_ = true;
    return false;
  }

  const char* at_;
  const char* const end_;
  int number_ = 0;
  bool has_bytes_ = false;
  bool damaged_ = false;
  uint64_t integer_ = 0;
  absl::string_view bytes_;
};

}  // namespace

bool RecordValues::ReadHistory(absl::string_view record) { return Read(record, /*history=*/true); }
bool RecordValues::ReadUpdates(absl::string_view record) { return Read(record, /*history=*/false); }

// The three messages have the same numbers of fields, but the second of a history is its step.
bool RecordValues::Read(absl::string_view record, bool history) {
  names_.clear();
  set_.clear();
  removed_.clear();
  step_.reset();
  Fields fields(record);
  while (fields.Next()) {
    if (!fields.has_bytes()) continue;
    if (fields.number() == wandb_internal::SummaryRecord::kUpdateFieldNumber) {
      if (!ReadValue(fields.bytes(), &set_)) return false;
    } else if (fields.number() == wandb_internal::SummaryRecord::kRemoveFieldNumber && !history) {
      if (!ReadValue(fields.bytes(), &removed_)) return false;
    } else if (fields.number() == wandb_internal::HistoryRecord::kStepFieldNumber) {
      Fields step(fields.bytes());
      step_ = 0;
      while (step.Next()) {
        if (step.number() == wandb_internal::HistoryStep::kNumFieldNumber) step_ = step.integer();
      }
      if (step.damaged()) return false;
    }
  }
  return !fields.damaged();
}

bool RecordValues::ReadValue(absl::string_view item, std::vector<Value>* values) {
  using wandb_internal::HistoryItem;
  Value value{.first_name = names_.size()};
  absl::string_view key;
  Fields fields(item);
  while (fields.Next()) {
    if (!fields.has_bytes()) continue;
    if (fields.number() == HistoryItem::kValueJsonFieldNumber) value.json = fields.bytes();
    if (fields.number() == HistoryItem::kKeyFieldNumber) key = fields.bytes();
    if (fields.number() == HistoryItem::kNestedKeyFieldNumber) names_.push_back(fields.bytes());
  }
  if (names_.size() == value.first_name) names_.push_back(key);
  value.names = names_.size() - value.first_name;
  for (const absl::string_view name : PathOf(value)) {
    if (!IsUtf8(name)) return false;
  }
  values->push_back(value);
  return !fields.damaged();
}

ValueRecord FindValueRecord(absl::string_view record) {
  ValueRecord found;
  Fields fields(record);
  while (fields.Next()) {
    const int number = fields.number();
    if (fields.has_bytes() &&
        (number == Record::kHistoryFieldNumber || number == Record::kSummaryFieldNumber ||
         number == Record::kConfigFieldNumber)) {
      found = {.field = number, .content = fields.bytes()};
    }
  }
  return fields.damaged() ? ValueRecord() : found;
}

}  // namespace ranklog::imports
