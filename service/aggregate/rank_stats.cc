#include "service/aggregate/rank_stats.h"

#include <cmath>
#include <limits>

namespace ranklog::aggregate {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void RankStats::Add(uint32_t rank, double value) {
  if (std::isnan(value)) {
    ++nan_count;
    return;
  }
  ++count;
  if (count == 1 || value < min || (value == min && rank < argmin)) {
    min = value;
    argmin = rank;
  }
  if (count == 1 || value > max || (value == max && rank < argmax)) {
    max = value;
    argmax = rank;
  }
  const double delta = value - mean;
  if (std::isfinite(delta)) {
    mean += delta / count;
    m2 += delta * (value - mean);
  } else {
    // The recurrence would subtract infinities from each other; adding keeps the first one.
    mean += value;
    if (std::isfinite(mean)) mean = delta;
    m2 = kNaN;
  }
}

void RankStats::Merge(const RankStats& other) {
  nan_count += other.nan_count;
  if (other.count == 0) return;
  if (count == 0) {
    const uint32_t nans = nan_count;
    *this = other;
    nan_count = nans;
    return;
  }
  if (other.min < min || (other.min == min && other.argmin < argmin)) {
    min = other.min;
    argmin = other.argmin;
  }
  if (other.max > max || (other.max == max && other.argmax < argmax)) {
    max = other.max;
    argmax = other.argmax;
  }
  const double total = static_cast<double>(count) + other.count;
  const double delta = other.mean - mean;
  if (std::isfinite(delta)) {
    mean += delta * (other.count / total);
    m2 += other.m2 + delta * delta * (count / total) * other.count;
  } else {
    mean += other.mean;
    if (std::isfinite(mean)) mean = delta;
    m2 = kNaN;
  }
  count += other.count;
}

double RankStats::std() const { return count == 0 ? kNaN : std::sqrt(m2 / count); }

}  // namespace ranklog::aggregate
