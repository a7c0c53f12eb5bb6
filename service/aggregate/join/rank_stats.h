// Statistics over the values that several ranks logged under one name at one step.

#ifndef SERVICE_AGGREGATE_JOIN_RANK_STATS_H_
#define SERVICE_AGGREGATE_JOIN_RANK_STATS_H_

#include <cstdint>

namespace ranklog::aggregate {

// Adds values one by one.
//
// Input    one value per rank, in any order. argmin and argmax are the lowest of the ranks that
//          share the minimum or maximum.
// Units    those of the metric. The standard deviation divides by the count: these are all the
//          ranks, not a sample of them.
// NaN, infinities
//          excluded from every statistic, and counted in not_finite. Without any finite value the
//          statistics are NaN.
// Range    statistics of finite values are finite and precise, even for very large or small values:
//          squares are summed in units of 2^(2 * exponent).
// Order    min, max, argmin, argmax and the counts do not depend on it; mean and std only by
//          rounding.
// Threads  pure; use it from any thread.
// Source   Welford's recurrence, Knuth, TAOCP vol. 2, 3rd ed., p. 232.
struct RankStats {
  uint32_t count = 0;       // number of finite values
  uint32_t not_finite = 0;  // number of NaNs and infinities
  uint32_t argmin = 0;      // argmin and argmax are undefined while count is 0
  uint32_t argmax = 0;
  double mean = 0;
  double m2 = 0;     // sum of the squared distances from the mean, divided by 2^(2 * exponent)
  int exponent = 0;  // not 0 only if squares would overflow or underflow
  double min = 0;
  double max = 0;

  void Add(uint32_t rank, double value);
  double std() const;  // NaN while count is 0

 private:
  void ScaleFor(double distance);
  void ScaleTo(int new_exponent);
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_RANK_STATS_H_
