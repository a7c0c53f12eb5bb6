// What several ranks logged under one name at one step, reduced to a few figures.

#ifndef SERVICE_AGGREGATE_RANK_STATS_H_
#define SERVICE_AGGREGATE_RANK_STATS_H_

#include <cstdint>

namespace ranklog::aggregate {

// Takes values one by one, and merges with what another node took.
//
// Input: one value per rank, in any order. argmin and argmax are the lowest of the ranks that share
// the figure.
// Units: those of the metric. The standard deviation divides by the count: these are all the ranks,
// not a sample of them.
// NaN and infinities: left out of every figure, and counted in not_finite. Without any other value
// the figures are NaN.
// Range: the figures of finite values are finite and keep their precision, however large or small
// the values are: squares are summed in units of 2^(2 * exponent).
// Order: min, max, argmin, argmax and the counts do not depend on it; mean and std to rounding
// only.
//
// Threads: pure; use it from anywhere.
//
// Source: Add is Welford's recurrence, Knuth, TAOCP vol. 2, 3rd ed., p. 232; Merge is Chan, Golub,
// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
struct RankStats {
  uint32_t count = 0;       // of finite values
  uint32_t not_finite = 0;  // NaN and infinities
  uint32_t argmin = 0;      // these two mean nothing while count is 0
  uint32_t argmax = 0;
  double mean = 0;
  double m2 = 0;     // sum of the squared distances from the mean, divided by 2^(2 * exponent)
  int exponent = 0;  // other than 0 only where squares would overflow or vanish
  double min = 0;
  double max = 0;

  void Add(uint32_t rank, double value);
  void Merge(const RankStats& other);
  double std() const;  // NaN while count is 0

 private:
  void ScaleFor(double distance);
  void ScaleTo(int new_exponent);
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RANK_STATS_H_
