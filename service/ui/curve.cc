#include "service/ui/curve.h"

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
    ++not_finite_;
    bucket.low.value = bucket.high.value = std::numeric_limits<double>::quiet_NaN();
  }
  if (!buckets_.empty() && bucket.index <= buckets_.back().index) {
    Merge(bucket, &buckets_.back());
    return;
  }
  buckets_.push_back(bucket);
  while (buckets_.size() > most_) Widen();
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

}  // namespace ranklog::ui
