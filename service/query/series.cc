#include "service/query/series.h"

#include <algorithm>
#include <cmath>

namespace ranklog::query {

Series::Series(int64_t x_min, int64_t x_max, int columns)
    : x_min_(x_min), x_max_(std::max(x_min, x_max)), columns_(std::max(columns, 1)) {}

void Series::Add(int64_t x, double y) {
  if (!std::isfinite(y)) {
    ++not_finite_;
    return;
  }
  const double span = static_cast<double>(x_max_) - static_cast<double>(x_min_);
  const double part = span == 0 ? 0 : (static_cast<double>(x) - static_cast<double>(x_min_)) / span;
  const double last_column = static_cast<double>(columns_.size() - 1);
  Column& column = columns_[std::lround(std::clamp(part, 0.0, 1.0) * last_column)];
  if (column.count++ == 0) column.first = column.min = column.max = y;
  column.last = y;
  column.min = std::min(column.min, y);
  column.max = std::max(column.max, y);
  min_ = count_ == 0 ? y : std::min(min_, y);
  max_ = count_ == 0 ? y : std::max(max_, y);
  last_ = y;
  last_x_ = x;
  ++count_;
}

}  // namespace ranklog::query
