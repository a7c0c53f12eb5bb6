#ifndef SERVICE_QUERY_SERIES_H_
#define SERVICE_QUERY_SERIES_H_

#include <cstdint>
#include <vector>

namespace ranklog::query {

// The values of one metric, summarized by column of the plot. Memory is a few numbers per column,
// for any number of values. No peak is lost, because each column keeps its smallest and its largest
// value.
class Series {
 public:
  struct Column {
    uint64_t count = 0;
    double first = 0, last = 0;
    double min = 0, max = 0;
  };

  // `x_min` to `x_max` covers the whole width. Values outside go into the outermost columns.
  Series(int64_t x_min, int64_t x_max, int columns);

  // Call it in the order of x. NaN and infinities are counted but not plotted.
  void Add(int64_t x, double y);

  const std::vector<Column>& columns() const { return columns_; }
  int64_t x_min() const { return x_min_; }
  int64_t x_max() const { return x_max_; }
  uint64_t count() const { return count_; }
  uint64_t not_finite() const { return not_finite_; }
  double min() const { return min_; }
  double max() const { return max_; }
  double last() const { return last_; }
  int64_t last_x() const { return last_x_; }

 private:
  const int64_t x_min_;
  const int64_t x_max_;
  std::vector<Column> columns_;
  uint64_t count_ = 0;
  uint64_t not_finite_ = 0;
  double min_ = 0, max_ = 0, last_ = 0;
  int64_t last_x_ = 0;
};

}  // namespace ranklog::query

#endif  // SERVICE_QUERY_SERIES_H_
