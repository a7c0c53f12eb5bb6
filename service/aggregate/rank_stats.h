// What several ranks logged under one name at one step, reduced to a few figures.

#ifndef SERVICE_AGGREGATE_RANK_STATS_H_
#define SERVICE_AGGREGATE_RANK_STATS_H_

#include <cstdint>

namespace ranklog::aggregate {

// Takes values one by one, and merges with what another node took.
//
// Input     one value per rank, in any order; argmin and argmax are the lowest of the ranks that
// share the figure. Units     those of the metric; m2 is their square. The standard deviation
// divides by the count: these are
//           all the ranks, not a sample of them.
// NaN       left out of every figure, and counted in nan_count. Without any other value the figures
// are NaN. Infinity  is seen by min, max, argmin and argmax. The mean is that infinity, or NaN if
// there are both; the
//           standard deviation is NaN.
// Range     finite values that are further apart than the largest double make the mean infinite.
// Order     min, max, argmin, argmax and the counts do not depend on it; mean and m2 to rounding
// only. Threads   pure; use it from anywhere. Source    Add: Welford's recurrence, Knuth, TAOCP
// vol. 2, 3rd ed., p. 232. Merge: Chan, Golub, LeVeque,
//           "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
struct RankStats {
  uint32_t count = 0;  // of values that are not NaN
  uint32_t nan_count = 0;
  uint32_t argmin = 0;  // these two mean nothing while count is 0
  uint32_t argmax = 0;
  double mean = 0;
  double m2 = 0;  // sum of the squared distances from the mean
  double min = 0;
  double max = 0;

  void Add(uint32_t rank, double value);
  void Merge(const RankStats& other);
  double std() const;  // NaN while count is 0
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RANK_STATS_H_
