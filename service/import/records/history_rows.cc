#include "service/import/records/history_rows.h"

#include <algorithm>
#include <cmath>

#include "service/deliver/json/json_writer.h"
#include "service/import/records/json_values.h"

namespace ranklog::imports {
namespace {

using model::Json;

constexpr size_t kBatchBytes = 1 << 20;  // as the rows of runs: aggregate/batch_builder.h
constexpr size_t kBatchBlocks = 256;
constexpr double kMostStep = 9e18;  // fits in an int64_t
constexpr double kMostTime = 9e12;  // s; fits in an int64_t of microseconds

}  // namespace

HistoryRows::HistoryRows(uint64_t rows, const std::vector<std::vector<std::string>>& shapes,
                         int64_t started_us)
    : next_(rows + 1), last_us_(started_us) {
  for (uint32_t id = 1; id < shapes.size(); ++id) {
    std::vector<KeyNumber> numbers;
    for (const std::string& key : shapes[id]) numbers.push_back(NumberOf(key));
    known_shapes_[std::move(numbers)] = id;
  }
  next_shape_ = std::max<uint32_t>(1, static_cast<uint32_t>(shapes.size()));
}

void HistoryRows::Follow(int64_t last, bool always) {
  raise_ = always ? Raise::kYes : Raise::kIfFirstIsZero;
  last_step_ = last;
}

void HistoryRows::Add(const RecordValues& record) {
  numbers_.clear();
  texts_.clear();
  bool has_nested = false;
  absl::optional<int64_t> step = record.step();
  double seconds = 0;
  for (const RecordValues::Value& value : record.set()) {
    if (value.names > 1) {
      has_nested = true;
      continue;
    }
    const absl::string_view key = record.PathOf(value)[0];
    double number = 0;
    if (key == "_step" && ParseNumber(value.json, &number) && std::abs(number) < kMostStep) {
      step = static_cast<int64_t>(number);
    } else if (key == "_timestamp" && ParseNumber(value.json, &number)) {
      seconds = number;
    } else {
      AddValue(key, value.json);
    }
  }
  if (has_nested) AddNested(record);
  if (seconds > 0 && seconds < kMostTime) last_us_ = std::llround(seconds * 1e6);
  if (raise_ == Raise::kIfFirstIsZero) {
    raise_ = step.value_or(static_cast<int64_t>(next_ - 1)) == 0 ? Raise::kYes : Raise::kNo;
  }
  if (raise_ == Raise::kYes && step) step = last_step_ = std::max(*step, last_step_ + 1);

  const Kind kind{ShapeOfRow(), !step.has_value()};
  model::Block& block = BlockOf(kind);
  model::Batch& batch = batches_.back();
  batch.last = next_++;
  block.offsets.push_back(static_cast<uint32_t>(batch.last - batch.first));
  block.steps.push_back(step.value_or(static_cast<int64_t>(batch.last - 1)));
  block.times_us.push_back(last_us_);
  for (const Number& number : numbers_) block.values.push_back(number.value);
  bytes_ += 32 + 8 * numbers_.size();
  for (model::Text& text : texts_) {
    bytes_ += 32 + text.key.size() + text.value.size();
    text.row = static_cast<uint32_t>(block.rows() - 1);
    block.texts.push_back(std::move(text));
  }
}

void HistoryRows::AddValue(absl::string_view key, absl::string_view json) {
  double number = 0;
  if (ParseNumber(json, &number)) {
    numbers_.push_back({NumberOf(key), static_cast<uint32_t>(numbers_.size()), number});
    return;
  }
  RowValue value = ToRowValue(json);
  if (value.kind == RowValue::Kind::kNotJson) {
    ++not_json_;
    return;
  }
  texts_.push_back({.row = 0,
                    .key = std::string(key),
                    .value = std::move(value.text),
                    .json = value.kind == RowValue::Kind::kJson});
}

// The nested keys with one beginning become one object.
void HistoryRows::AddNested(const RecordValues& record) {
  Json objects = Json::object();
  for (const RecordValues::Value& item : record.set()) {
    if (item.names == 1) continue;
    Json value = ToJson(item.json);
    if (value.is_discarded()) {
      ++not_json_;
      continue;
    }
    SetAt(record.PathOf(item), std::move(value), /*merge=*/true, &objects);
  }
  for (const auto& [key, value] : objects.items()) AddValue(key, deliver::ToJsonText(value));
}

HistoryRows::KeyNumber HistoryRows::NumberOf(absl::string_view key) {
  const auto found = key_numbers_.find(key);
  if (found != key_numbers_.end()) return found->second;
  const auto number = static_cast<KeyNumber>(keys_.size());
  keys_.emplace_back(key);
  key_numbers_.emplace(keys_.back(), number);
  return number;
}

// By their keys. Of a repeated key, the last number counts.
void HistoryRows::SortNumbers() {
  std::sort(numbers_.begin(), numbers_.end(), [](const Number& a, const Number& b) {
    return a.key != b.key ? a.key < b.key : a.order < b.order;
  });
  size_t kept = 0;
  for (const Number& number : numbers_) {
    if (kept > 0 && numbers_[kept - 1].key == number.key) --kept;
    numbers_[kept++] = number;
  }
  numbers_.resize(kept);
}

uint32_t HistoryRows::ShapeOfRow() {
  if (numbers_.empty()) return 0;
  SortNumbers();
  row_keys_.clear();
  for (const Number& number : numbers_) row_keys_.push_back(number.key);
  const auto [known, is_new] = known_shapes_.try_emplace(row_keys_, next_shape_);
  if (is_new) {
    std::vector<std::string> keys;
    for (const KeyNumber key : row_keys_) keys.push_back(keys_[key]);
    new_shapes_.emplace_back(next_shape_++, std::move(keys));
  }
  return known->second;
}

model::Block& HistoryRows::BlockOf(Kind kind) {
  if (batches_.empty() || bytes_ >= kBatchBytes || blocks_.size() >= kBatchBlocks) {
    batches_.push_back({.first = next_, .last = next_, .blocks = {}});
    blocks_.clear();
    bytes_ = 0;
  }
  model::Batch& batch = batches_.back();
  const auto [found, is_new] = blocks_.try_emplace(kind, batch.blocks.size());
  if (is_new) {
    model::Block& block = batch.blocks.emplace_back();
    block.shape = kind.shape;
    block.commits = true;
    block.counted = kind.counted;
  }
  return batch.blocks[found->second];
}

void HistoryRows::Clear() {
  batches_.clear();
  blocks_.clear();
  new_shapes_.clear();
  bytes_ = 0;
}

}  // namespace ranklog::imports
