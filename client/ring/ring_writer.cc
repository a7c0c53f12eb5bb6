#include "client/ring/ring_writer.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "client/ring/record_bytes.h"
#include "client/ring/ticks.h"

namespace ranklog::internal {
namespace {

// What a ranklog_key is; see InternKey().
const std::string* InternedKey(const ranklog_key_value& value) {
  return reinterpret_cast<const std::string*>(value.key);
}

// Why a ring with these shapes cannot take a shape of `keys` keys, which take `key_bytes`; empty if
// it can.
std::string ShapeError(size_t keys, size_t key_bytes, const ShapeTable& shapes) {
  const char* const advice = "; do not put changing parts, such as a step or a name, into keys";
  if (keys > v1::kMaxShapeKeys) {
    return "a row has " + std::to_string(keys) + " numbers; at most " +
           std::to_string(v1::kMaxShapeKeys) + " can be logged";
  }
  if (shapes.size() >= v1::kMaxShapes) {
    return "a thread logged more than " + std::to_string(v1::kMaxShapes) +
           " different lists of keys" + advice;
  }
  if (shapes.key_bytes() + key_bytes > v1::kMaxStreamKeyBytes) {
    return "the different lists of keys that a thread logged take more than " +
           std::to_string(v1::kMaxStreamKeyBytes >> 20) + " MiB" + advice;
  }
  return "";
}

}  // namespace

RingWriter::RingWriter(Spool* spool)
    : header_(spool->header()),
      data_(spool->data()),
      capacity_(spool->data_bytes()),
      steady_counter_(HasSteadyCounter()) {}

std::byte* RingWriter::ReserveSlowly(size_t bytes) {
  const size_t half = capacity_ / 2;
  if (bytes > half) return nullptr;
  const size_t free = capacity_ - (head_ - header_->tail.load(std::memory_order_acquire));
  const size_t to_end = capacity_ - position_;
  if (bytes > to_end) {
    if (to_end + bytes > free) return nullptr;
    // Readers see the padding when the record after it is published.
    const v1::RecordHeader pad = {static_cast<uint32_t>(to_end), v1::RecordKind::kPad, 0};
    std::memcpy(data_ + position_, &pad, sizeof pad);
    head_ += to_end;
    position_ = 0;
    room_ = std::min(half, free - to_end);
    return data_;
  }
  room_ = std::min({half, free, to_end});
  return bytes <= room_ ? data_ + position_ : nullptr;
}

void RingWriter::Publish(size_t bytes) {
  head_ += bytes;
  room_ -= bytes;
  position_ += bytes;
  if (position_ == capacity_) position_ = room_ = 0;
  header_->head.store(head_, std::memory_order_release);
}

WriteResult RingWriter::PublishRow(std::byte* record, Shape* shape, size_t values,
                                   size_t text_bytes, size_t text_count, const RowStep& step) {
  if (step.IsBelow(least_step_)) return WriteResult::kStepBehind;
  const int64_t taken = step.Take();
  least_step_ = taken + (step.commits() ? 1 : 0);
  const size_t bytes = sizeof(v1::RowRecord) + 8 * values + Align(text_bytes);
  const auto flags = static_cast<uint16_t>((step.commits() ? v1::kRowCommits : 0) |
                                           (step.counted() ? v1::kRowCounted : 0));
  const v1::RowRecord row = {.header = {static_cast<uint32_t>(bytes), v1::RecordKind::kRow, flags},
                             .shape = shape->id,
                             .value_count = static_cast<uint32_t>(values),
                             .seq = ++rows_,
                             .step = taken,
                             .ticks = ReadTicks(steady_counter_),
                             .text_bytes = static_cast<uint32_t>(text_bytes),
                             .text_count = static_cast<uint32_t>(text_count)};
  std::memcpy(record, &row, sizeof row);
  header_->rows.store(rows_, std::memory_order_relaxed);
  Publish(bytes);
  shapes_.Follow(shape);
  return WriteResult::kTaken;
}

WriteResult RingWriter::Refusal(size_t bytes) {
  if (bytes <= capacity_ / 2) return WriteResult::kRingFull;
  too_large_ = bytes;
  return WriteResult::kTooLarge;
}

// The row is written, but without some values.
WriteResult RingWriter::TakenInPart(size_t values) {
  CountLostValues(values);
  return WriteResult::kTakenInPart;
}

WriteResult RingWriter::Write(std::span<const ranklog_field> row, const RowStep& step) {
  Shape* const guess = shapes_.guess();
  const size_t width = row.size();
  std::byte* const record = Reserve(sizeof(v1::RowRecord) + 8 * width);
  if (record == nullptr || guess->width() != width) return WriteSlowly(row, step);
  // Writes the values into the ring while it compares the keys. Readers see them only if all keys
  // match.
  auto* const values = reinterpret_cast<double*>(record + sizeof(v1::RowRecord));
  const uint16_t* const sizes = guess->key_sizes.data();
  const char* bytes = guess->key_bytes.data();
  for (size_t i = 0; i < width; ++i) {
    const ranklog_field& metric = row[i];
    const size_t size = sizes[i];
    if (metric.key_bytes != size || metric.kind != RANKLOG_NUMBER ||
        !SameBytes(metric.key, bytes, size)) {
      return WriteSlowly(row, step);
    }
    bytes += size;
    values[i] = metric.number;
  }
  return PublishRow(record, guess, width, 0, 0, step);
}

Shape* RingWriter::Find(std::span<const std::string_view> keys) {
  return keys.empty() ? shapes_.empty() : shapes_.Find(keys);
}

// The keys must be valid.
WriteResult RingWriter::FindOrDefine(std::span<const std::string_view> keys, const RowStep& step,
                                     Shape** shape) {
  *shape = Find(keys);
  if (*shape != nullptr) return WriteResult::kTaken;
  return step.IsBelow(least_step_) ? WriteResult::kStepBehind : Define(keys, shape);
}

WriteResult RingWriter::Define(std::span<const std::string_view> keys, Shape** shape) {
  duplicates_ = false;
  size_t key_bytes = 0;
  for (std::string_view key : keys) key_bytes += 4 + key.size();
  reason_ = ShapeError(keys.size(), key_bytes, shapes_);
  if (!reason_.empty()) return WriteResult::kInvalid;
  duplicates_ = HasDuplicates(keys);
  if (duplicates_) return WriteResult::kInvalid;

  // A row that can never fit needs no shape.
  const size_t row_bytes = sizeof(v1::RowRecord) + 8 * keys.size();
  if (row_bytes > capacity_ / 2) return Refusal(row_bytes);
  const size_t bytes = sizeof(v1::ShapeRecord) + Align(key_bytes);
  std::byte* const record = Reserve(bytes);
  if (record == nullptr) return Refusal(bytes);
  *shape = shapes_.Add(keys);
  const v1::ShapeRecord header = {
      .header = {static_cast<uint32_t>(bytes), v1::RecordKind::kShape, 0},
      .shape = (*shape)->id,
      .key_count = static_cast<uint32_t>(keys.size()),
      .key_bytes = static_cast<uint32_t>(key_bytes),
      .reserved = 0};
  std::memcpy(record, &header, sizeof header);
  std::byte* at = record + sizeof header;
  for (std::string_view key : keys) at = Append(AppendLength(at, key.size()), key);
  Publish(bytes);
  return WriteResult::kTaken;
}

bool RingWriter::HasDuplicates(std::span<const std::string_view> keys) {
  absl::flat_hash_set<absl::string_view> seen;
  for (std::string_view key : keys) {
    if (!seen.insert(absl::string_view(key.data(), key.size())).second) return true;
  }
  return false;
}

WriteResult RingWriter::Write(std::span<const ranklog_key_value> row, const RowStep& step) {
  Shape* shape = shapes_.guess();
  const size_t width = row.size();
  if (width == 0) return WriteSlowly({}, step);
  const size_t bytes = sizeof(v1::RowRecord) + 8 * width;
  std::byte* record = Reserve(bytes);
  const auto matches = [&] {
    if (record == nullptr || shape->handles.size() != width) return false;
    auto* const values = reinterpret_cast<double*>(record + sizeof(v1::RowRecord));
    const std::string* const* const handles = shape->handles.data();
    uintptr_t difference = 0;  // a loop without branches is vectorized
    for (size_t i = 0; i < width; ++i) {
      difference |=
          reinterpret_cast<uintptr_t>(row[i].key) ^ reinterpret_cast<uintptr_t>(handles[i]);
      values[i] = row[i].value;
    }
    return difference == 0;
  };
  if (!matches()) {
    keys_.clear();
    bool any_empty = false;
    for (const ranklog_key_value& item : row) {
      any_empty |= item.key == nullptr;
      keys_.push_back(item.key == nullptr ? std::string_view() : *InternedKey(item));
    }
    const WriteResult outcome =
        any_empty ? WriteResult::kInvalid : FindOrDefine(keys_, step, &shape);
    if (outcome == WriteResult::kInvalid && (any_empty || duplicates_)) {
      std::vector<ranklog_field> metrics(width);
      for (size_t i = 0; i < width; ++i) {
        metrics[i].key = keys_[i].data();
        metrics[i].key_bytes = keys_[i].size();
        metrics[i].number = row[i].value;
      }
      return WriteSlowly(metrics, step);
    }
    if (outcome != WriteResult::kTaken) return outcome;
    if (shape->handles.size() != width) {  // never changes once set: keys are interned
      std::vector<const std::string*> handles;
      for (const ranklog_key_value& item : row) handles.push_back(InternedKey(item));
      shape->handles = std::move(handles);
    }
    record = Reserve(bytes);
    if (!matches()) return Refusal(bytes);
  }
  return PublishRow(record, shape, width, 0, 0, step);
}

WriteResult RingWriter::Write(const RowShape& row, std::span<const double> values,
                              const RowStep& step) {
  if (row.given == 0) {
    reason_ = "an empty RowHandle; create it with Run::Row()";
    return WriteResult::kInvalid;
  }
  if (values.size() != row.given) {
    reason_ = "a row of " + std::to_string(row.given) + " keys got " +
              std::to_string(values.size()) + " values";
    return WriteResult::kInvalid;
  }
  if (row.keys.size() != row.given) [[unlikely]] {
    values_.clear();
    for (const size_t position : row.positions) values_.push_back(values[position]);
    values = values_;
  }
  if (row.index >= by_row_shape_.size()) by_row_shape_.resize(row.index + 1);
  Shape*& shape = by_row_shape_[row.index];
  if (shape == nullptr) {
    keys_.assign(row.keys.begin(), row.keys.end());
    const WriteResult outcome = FindOrDefine(keys_, step, &shape);
    if (outcome != WriteResult::kTaken) return outcome;
  }
  const size_t bytes = sizeof(v1::RowRecord) + values.size_bytes();
  std::byte* const record = Reserve(bytes);
  if (record == nullptr) return Refusal(bytes);
  std::memcpy(record + sizeof(v1::RowRecord), values.data(), values.size_bytes());
  const WriteResult outcome = PublishRow(record, shape, values.size(), 0, 0, step);
  if (row.left_out == 0 || outcome != WriteResult::kTaken) [[likely]] {
    return outcome;
  }
  left_out_.clear();
  return TakenInPart(row.left_out);
}

WriteResult RingWriter::WriteItem(std::string_view content) {
  const size_t bytes = sizeof(v1::ItemRecord) + Align(content.size());
  std::byte* const record = Reserve(bytes);
  if (record == nullptr) return Refusal(bytes);
  const v1::ItemRecord head = {.header = {static_cast<uint32_t>(bytes), v1::RecordKind::kItem, 0},
                               .content_bytes = static_cast<uint32_t>(content.size()),
                               .reserved = 0,
                               .seq = ++items_,
                               .after_row = rows_,
                               .ticks = ReadTicks(steady_counter_)};
  std::memcpy(record, &head, sizeof head);
  Append(record + sizeof head, content);
  header_->items.store(items_, std::memory_order_relaxed);
  Publish(bytes);
  return WriteResult::kTaken;
}

}  // namespace ranklog::internal
