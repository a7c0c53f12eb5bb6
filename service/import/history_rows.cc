#include "service/import/history_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "service/deliver/json_writer.h"

namespace ranklog::imports {
namespace {

using model::Json;
using wandb_internal::HistoryItem;

constexpr size_t kBatchBytes = 1 << 20;  // as the rows of runs: aggregate/batch_builder.h
constexpr size_t kBatchBlocks = 256;
constexpr double kMostTime = 9e12;  // s; fits in an int64_t of microseconds

absl::string_view FlatKey(const HistoryItem& item) {
  return item.nested_key_size() == 1 ? item.nested_key(0) : item.key();
}

}  // namespace

HistoryRows::HistoryRows(uint64_t rows, const std::vector<std::vector<std::string>>& shapes,
                         int64_t started_us)
    : next_(rows + 1), last_us_(started_us) {
  for (uint32_t id = 1; id < shapes.size(); ++id) known_shapes_[shapes[id]] = id;
  next_shape_ = std::max<uint32_t>(1, static_cast<uint32_t>(shapes.size()));
}

void HistoryRows::Add(const wandb_internal::HistoryRecord& record) {
  numbers_.clear();
  texts_.clear();
  nested_.clear();
  bool has_step = record.has_step();
  int64_t step = record.step().num();
  double seconds = 0;
  for (const HistoryItem& item : record.item()) {
    if (item.nested_key_size() > 1) {
      nested_.push_back(&item);
      continue;
    }
    const absl::string_view key = FlatKey(item);
    double number = 0;
    if (key == "_step" && ParseNumber(item.value_json(), &number)) {
      step = static_cast<int64_t>(number);
      has_step = true;
    } else if (key == "_timestamp" && ParseNumber(item.value_json(), &number)) {
      seconds = number;
    } else {
      AddValue(key, item.value_json());
    }
  }
  if (!nested_.empty()) AddNested();
  if (seconds > 0 && seconds < kMostTime) last_us_ = std::llround(seconds * 1e6);
  if (!has_step) step = static_cast<int64_t>(next_ - 1);

  const Kind kind{ShapeOfRow(), !has_step};
  model::Block& block = BlockOf(kind);
  model::Batch& batch = batches_.back();
  batch.last = next_++;
  block.offsets.push_back(static_cast<uint32_t>(batch.last - batch.first));
  block.steps.push_back(step);
  block.times_us.push_back(last_us_);
  for (const auto& [key, number] : numbers_) block.values.push_back(number);
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
    numbers_.emplace_back(key, number);
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
void HistoryRows::AddNested() {
  Json objects = Json::object();
  for (const HistoryItem* item : nested_) {
    Json value = ToJson(item->value_json());
    if (value.is_discarded()) {
      ++not_json_;
      continue;
    }
    SetAt(PathOf(*item), std::move(value), /*merge=*/true, &objects);
  }
  for (const auto& [key, value] : objects.items()) AddValue(key, deliver::ToJsonText(value));
}

uint32_t HistoryRows::ShapeOfRow() {
  if (numbers_.empty()) return 0;
  const auto same = [](const std::string& key, const auto& number) { return key == number.first; };
  if (std::equal(last_keys_.begin(), last_keys_.end(), numbers_.begin(), numbers_.end(), same)) {
    return last_shape_;
  }
  DropRepeatedKeys();
  std::vector<std::string> keys;
  keys.reserve(numbers_.size());
  for (const auto& [key, number] : numbers_) keys.emplace_back(key);
  const auto [known, is_new] = known_shapes_.try_emplace(keys, next_shape_);
  if (is_new) new_shapes_.emplace_back(next_shape_++, keys);
  last_shape_ = known->second;
  last_keys_ = std::move(keys);
  return last_shape_;
}

// The last value of a key counts.
void HistoryRows::DropRepeatedKeys() {
  absl::flat_hash_set<absl::string_view> seen;
  std::vector<std::pair<absl::string_view, double>> kept;
  for (auto number = numbers_.rbegin(); number != numbers_.rend(); ++number) {
    if (seen.insert(number->first).second) kept.push_back(*number);
  }
  if (kept.size() == numbers_.size()) return;
  std::reverse(kept.begin(), kept.end());
  numbers_ = std::move(kept);
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
