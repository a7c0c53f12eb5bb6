#ifndef SERVICE_UI_CURVES_CURVE_H_
#define SERVICE_UI_CURVES_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ranklog::ui {

struct Point {
  int64_t x = 0;  // a step, or a time
  int64_t time_us = 0;
  double value = 0;
};

// The values of one metric, thinned as they come, in memory that does not depend on their number.
//
// The x axis is divided into buckets of equal width, and each keeps its smallest and its largest
// value, so no peak is lost. If there are more than `most` buckets, their width doubles. So a curve
// can grow for ever, and has at least half of `most` buckets.
class Curve {
 public:
  explicit Curve(size_t most) : most_(most) {}

  // Call it in the order of x. A bucket with nothing but NaN and infinities is a gap, whose point has
  // the value NaN.
  void Add(const Point& point);

  // The points of the bucket of `x`, and all later ones: at most two per bucket, ascending. The
  // last point of all is always among them.
  std::vector<Point> From(int64_t x) const;
  std::vector<Point> All() const { return From(buckets_.empty() ? 0 : buckets_.front().low.x); }

  // The first NaN or infinity of the bucket of `x`, and of each later bucket that has one.
  std::vector<Point> NotFiniteFrom(int64_t x) const;

  struct NotFinite {
    uint64_t nan = 0, inf = 0, minus_inf = 0;  // how many
    uint64_t count() const { return nan + inf + minus_inf; }
  };

  uint64_t count() const { return count_; }  // of finite values
  const NotFinite& not_finite() const { return not_finite_; }
  // Meaningful if count() > 0.
  double min() const { return min_; }
  double max() const { return max_; }
  const Point& last() const { return last_; }

 private:
  struct Bucket {
    int64_t index;  // x >> shift_
    Point low, high;
  };
  struct Mark {
    int64_t index;  // of its bucket
    Point point;
  };
  static void Merge(const Bucket& from, Bucket* into);
  void CountNotFinite(const Point& point, int64_t index);
  void Widen();

  size_t most_;
  int shift_ = 0;  // a bucket is 2^shift_ wide
  std::vector<Bucket> buckets_;
  std::vector<Mark> marks_;  // the first NaN or infinity of each bucket that has one
  uint64_t count_ = 0;
  NotFinite not_finite_;
  double min_ = 0, max_ = 0;
  Point last_;
};

}  // namespace ranklog::ui

#endif  // SERVICE_UI_CURVES_CURVE_H_
