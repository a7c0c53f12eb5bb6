// A queue of the rows of one stream that wait for their step to close.

#ifndef SERVICE_AGGREGATE_JOIN_OPEN_ROWS_H_
#define SERVICE_AGGREGATE_JOIN_OPEN_ROWS_H_

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
  uint64_t value_offset = 0;                        // of its first value; see OpenRows::values()
  bool dropped = false;                             // only its seq is used
  bool counted = false;                             // as in model::Block
  bool keeps_step = false;                          // its step is the one that was logged
  uint64_t rows = 0;                                // number of counted rows that it represents
  std::unique_ptr<std::vector<model::Text>> texts;  // null if there are none
};

// Holds rows of ascending steps. A row is dropped if a later row of the same step with the same
// keys supersedes it. So a rank that logs to one step forever takes only the memory of one row.
// (If more than kCompactRows rows of one step alternate between shapes, this changes the order of
// keys.)
//
// Not thread-safe.
class OpenRows {
 public:
  static constexpr size_t kCompactRows = 64;

  // Appends a row. Its step must not be below that of the last row. `texts` may be null.
  void Push(OpenRow row, const double* values);

  bool empty() const { return rows_.empty(); }
  size_t size() const { return rows_.size(); }
  const OpenRow& operator[](size_t i) const { return rows_[i]; }
  const OpenRow& front() const { return rows_.front(); }
  const OpenRow& back() const { return rows_.back(); }
  // Valid until the next Push() or Pop().
  const double* values(const OpenRow& row) const {
    return values_.data() + (row.value_offset - base_);
  }
  void Pop();

  // The memory in use, in units of a double: values, the rows' own fields, and texts.
  size_t cost() const { return cost_; }

 private:
  void Compact();
  static size_t CostOf(const OpenRow& row);

  std::deque<OpenRow> rows_;
  std::vector<double> values_;  // the values of rows_, in order, perhaps after those of popped rows
  uint64_t base_ = 0;           // value_offset of values_[0]
  size_t cost_ = 0;
  // The number of rows of the last step at which to look for superseded rows.
  size_t compact_at_ = kCompactRows;
  size_t last_step_rows_ = 0;  // number of rows_ with the step of the last row
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_OPEN_ROWS_H_
