#include "service/aggregate/join/open_rows.h"

#include <algorithm>
#include <utility>

namespace ranklog::aggregate {
namespace {

// Whether `later` overwrites all values of `earlier`, a row of the same step.
bool Supersedes(const OpenRow& later, const OpenRow& earlier) {
  if (earlier.dropped) return true;
  if (later.dropped || later.shape != earlier.shape) return false;
  if (earlier.texts == nullptr) return true;
  if (later.texts == nullptr) return false;
  return std::equal(earlier.texts->begin(), earlier.texts->end(), later.texts->begin(),
                    later.texts->end(),
                    [](const model::Text& a, const model::Text& b) { return a.key == b.key; });
}

}  // namespace

size_t OpenRows::CostOf(const OpenRow& row) {
  size_t cost = sizeof(OpenRow) / sizeof(double) + row.width;
  if (row.texts != nullptr) {
    for (const model::Text& text : *row.texts) {
      cost += (sizeof(text) + text.key.size() + text.value.size()) / sizeof(double);
    }
  }
  return cost;
}

void OpenRows::Push(OpenRow row, const double* values) {
  const bool same_step = !rows_.empty() && rows_.back().step == row.step;
  if (same_step && Supersedes(row, rows_.back())) {
    OpenRow& last = rows_.back();
    cost_ -= CostOf(last);
    row.rows += last.rows;
    values_.resize(last.value_offset - base_);
    rows_.pop_back();
    --last_step_rows_;
  } else if (!same_step) {
    last_step_rows_ = 0;
    compact_at_ = kCompactRows;
  }
  row.value_offset = base_ + values_.size();
  values_.insert(values_.end(), values, values + row.width);
  cost_ += CostOf(row);
  rows_.push_back(std::move(row));
  if (++last_step_rows_ >= compact_at_) Compact();
}

void OpenRows::Pop() {
  const OpenRow& row = rows_.front();
  cost_ -= CostOf(row);
  const uint64_t end = row.value_offset + row.width;
  last_step_rows_ = std::min(last_step_rows_, rows_.size() - 1);
  rows_.pop_front();
  if (rows_.empty()) {
    values_.clear();
    base_ = end;
  } else if (end - base_ > values_.size() / 2 && end - base_ > 4096) {
    values_.erase(values_.begin(), values_.begin() + static_cast<ptrdiff_t>(end - base_));
    base_ = end;
  }
}

void OpenRows::Compact() {
  const size_t begin = rows_.size() - last_step_rows_;
  std::vector<bool> superseded(rows_.size(), false);
  std::vector<size_t> kept;  // the latest row of each kind, by index; few, because shapes are few
  for (size_t i = rows_.size(); i-- > begin;) {
    superseded[i] = std::any_of(kept.begin(), kept.end(),
                                [&](size_t k) { return Supersedes(rows_[k], rows_[i]); });
    if (!superseded[i]) kept.push_back(i);
  }
  size_t to = begin;
  uint64_t value_offset = rows_[begin].value_offset;
  for (size_t i = begin; i < rows_.size(); ++i) {
    if (superseded[i]) {  // never the last one
      cost_ -= CostOf(rows_[i]);
      rows_.back().rows += rows_[i].rows;
      continue;
    }
    OpenRow& row = rows_[i];
    std::move(values_.begin() + static_cast<ptrdiff_t>(row.value_offset - base_),
              values_.begin() + static_cast<ptrdiff_t>(row.value_offset - base_ + row.width),
              values_.begin() + static_cast<ptrdiff_t>(value_offset - base_));
    row.value_offset = value_offset;
    value_offset += row.width;
    if (to != i) rows_[to] = std::move(row);
    ++to;
  }
  values_.resize(value_offset - base_);
  rows_.resize(to);
  last_step_rows_ = to - begin;
  compact_at_ = std::max(kCompactRows, 2 * last_step_rows_);
}

}  // namespace ranklog::aggregate
