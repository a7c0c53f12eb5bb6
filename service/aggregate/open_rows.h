// The rows of one stream that wait for their step to close, first in, first out.

#ifndef SERVICE_AGGREGATE_OPEN_ROWS_H_
#define SERVICE_AGGREGATE_OPEN_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "service/model/batch.h"

namespace ranklog::aggregate {

struct OpenRow {
  uint64_t seq = 0;
  int64_t step = 0;
  int64_t time_us = 0;
  uint32_t shape = 0;
  uint32_t width = 0;
  uint64_t place = 0;                               // of its first value: see OpenRows::values()
  bool dropped = false;                             // only its seq counts
  bool counted = false;                             // as model::Block's
  uint64_t rows = 0;                                // that it stands for, of those to be counted
  std::unique_ptr<std::vector<model::Text>> texts;  // null: none
};

// Holds rows of ascending steps. What is superseded is let go: a row gives way to a later one of
// the same step with the same keys, so that a rank that logs one step for ever takes no more room
// than one row. (Beyond kCompactRows rows of one step that do not follow each other, this changes
// the order of keys.)
//
// Not thread-safe.
class OpenRows {
 public:
  static constexpr size_t kCompactRows = 64;

  // Appends a row; its step is that of the last one, or larger. `texts` may be null.
  void Push(OpenRow row, const double* values);

  bool empty() const { return rows_.empty(); }
  size_t size() const { return rows_.size(); }
  const OpenRow& operator[](size_t i) const { return rows_[i]; }
  const OpenRow& front() const { return rows_.front(); }
  const OpenRow& back() const { return rows_.back(); }
  // Valid until the next Push() or Pop().
  const double* values(const OpenRow& row) const { return values_.data() + (row.place - base_); }
  void Pop();

  // In doubles' worth of memory: the values, the rows' own fields, the texts.
  size_t cost() const { return cost_; }

 private:
  void Compact();
  static size_t CostOf(const OpenRow& row);

  std::deque<OpenRow> rows_;
  std::vector<double> values_;  // those of rows_, in order, perhaps after some of popped rows
  uint64_t base_ = 0;           // place of values_[0]
  size_t cost_ = 0;
  size_t compact_at_ =
      kCompactRows;            // length of the last step at which to look for superseded rows
  size_t last_step_rows_ = 0;  // how many of rows_ have the step of the last
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_OPEN_ROWS_H_
