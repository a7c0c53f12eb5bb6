#include "service/aggregate/join/rank_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ranklog::aggregate {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<double>::max();

// Squares of distances between these limits, even the sum of 2^32 of them, are far from overflow
// and from subnormal numbers.
constexpr int kSquareBits = 400;
constexpr double kLargeDistance = 0x1p400;
constexpr double kSmallDistance = 0x1p-400;

// (a - b) / 2^exponent. The largest numbers are halved before the subtraction, because their
// distance would overflow.
double Distance(double a, double b, int exponent) {
  const double distance = a - b;
  if (exponent == 0) return distance;
  if (std::isfinite(distance)) return std::ldexp(distance, -exponent);
  return std::ldexp(a / 2 - b / 2, 1 - exponent);
}

// a + part * (b - a), for a part from 0 to 1.
double Towards(double a, double b, double part) {
  const double distance = b - a;
  return std::isfinite(distance) ? a + distance * part : a * (1 - part) + b * part;
}

}  // namespace

void RankStats::ScaleTo(int new_exponent) {
  m2 = std::ldexp(m2, 2 * (exponent - new_exponent));
  exponent = new_exponent;
}

// Chooses the unit of the squares so that the square of `distance` can be added to m2, or is
// negligible beside it. `distance` is infinite if it exceeds the largest number.
void RankStats::ScaleFor(double distance) {
  const double size = std::abs(distance);
  if (size == 0 || (exponent == 0 && size < kLargeDistance && (size > kSmallDistance || m2 > 0))) {
    return;
  }
  const int bits =
      std::isfinite(size) ? std::ilogb(size) : std::numeric_limits<double>::max_exponent;
  if (m2 == 0 || bits > exponent + kSquareBits) ScaleTo(bits);
}

void RankStats::Add(uint32_t rank, double value) {
  if (!std::isfinite(value)) {
    ++not_finite;
    return;
  }
  ++count;
  if (count == 1) {
    min = max = mean = value;
    argmin = argmax = rank;
    return;
  }
  if (value < min || (value == min && rank < argmin)) {
    min = value;
    argmin = rank;
  }
  if (value > max || (value == max && rank < argmax)) {
    max = value;
    argmax = rank;
  }
  ScaleFor(value - mean);
  const double distance = Distance(value, mean, exponent);
  const double delta = value - mean;
  mean = std::isfinite(delta) ? mean + delta / count : Towards(mean, value, 1.0 / count);
  m2 += distance * Distance(value, mean, exponent);
}

double RankStats::std() const {
  if (count == 0) return kNaN;
  // Rounding may raise it above the largest number.
  return std::min(std::ldexp(std::sqrt(m2 / count), exponent), kLargest);
}

}  // namespace ranklog::aggregate
