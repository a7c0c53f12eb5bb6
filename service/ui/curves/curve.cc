#include "service/ui/curves/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ranklog::ui {

void Curve::Add(const Point& point) {
  Bucket bucket{point.x >> shift_, point, point};
  if (std::isfinite(point.value)) {
    min_ = count_ == 0 ? point.value : std::min(min_, point.value);
    max_ = count_ == 0 ? point.value : std::max(max_, point.value);
    last_ = point;
    ++count_;
  } else {
    CountNotFinite(point, bucket.index);
    bucket.low.value = bucket.high.value = std::numeric_limits<double>::quiet_NaN();
  }
  if (!buckets_.empty() && bucket.index <= buckets_.back().index) {
    Merge(bucket, &buckets_.back());
    return;
  }
  buckets_.push_back(bucket);
  while (buckets_.size() > most_) Widen();
}

void Curve::CountNotFinite(const Point& point, int64_t index) {
  ++(std::isnan(point.value) ? not_finite_.nan
     : point.value > 0       ? not_finite_.inf
                             : not_finite_.minus_inf);
  if (marks_.empty() || index > marks_.back().index) marks_.push_back({index, point});
}

void Curve::Merge(const Bucket& from, Bucket* into) {
  if (std::isnan(from.low.value)) return;
  // A comparison with NaN is false, so a number replaces a gap.
  if (!(into->low.value <= from.low.value)) into->low = from.low;
  if (!(into->high.value >= from.high.value)) into->high = from.high;
}

void Curve::Widen() {
  ++shift_;
  size_t kept = 0;
  for (const Bucket& bucket : buckets_) {
    const int64_t index = bucket.index >> 1;
    if (kept > 0 && buckets_[kept - 1].index == index) {
      Merge(bucket, &buckets_[kept - 1]);
    } else {
      buckets_[kept] = bucket;
      buckets_[kept++].index = index;
    }
  }
  buckets_.resize(kept);
  kept = 0;
  for (const Mark& mark : marks_) {
    const int64_t index = mark.index >> 1;
    if (kept == 0 || marks_[kept - 1].index < index) marks_[kept++] = {index, mark.point};
  }
  marks_.resize(kept);
}

std::vector<Point> Curve::From(int64_t x) const {
  std::vector<Point> points;
  auto bucket =
      std::lower_bound(buckets_.begin(), buckets_.end(), x >> shift_,
                       [](const Bucket& each, int64_t index) { return each.index < index; });
  for (; bucket != buckets_.end(); ++bucket) {
    const bool low_first = bucket->low.x <= bucket->high.x;
    points.push_back(low_first ? bucket->low : bucket->high);
    if (bucket->low.x != bucket->high.x) points.push_back(low_first ? bucket->high : bucket->low);
  }
  if (!points.empty() && count_ > 0 && points.back().x < last_.x) points.push_back(last_);
  return points;
}

std::vector<Point> Curve::NotFiniteFrom(int64_t x) const {
  std::vector<Point> points;
  for (const Mark& mark : marks_) {
    if (mark.index >= x >> shift_) points.push_back(mark.point);
  }
  return points;
}

}  // namespace ranklog::ui
