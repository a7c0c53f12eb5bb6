#ifndef SERVICE_UI_CURVES_RANK_MATRIX_H_
#define SERVICE_UI_CURVES_RANK_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/storage/store_reader.h"

namespace ranklog::ui {

// Instead of a metric: by how many seconds a rank logged a step later than the first rank did.
// Compares clocks, which ranks of one node share.
inline constexpr char kLag[] = "_lag";

// The values of a metric as the ranks logged them, at steps spread evenly over the run.
struct RankMatrix {
  std::vector<int64_t> steps;               // ascending
  std::vector<uint32_t> ranks;              // ascending; only ranks with a value
  std::vector<std::vector<double>> values;  // by rank, then by step; NaN: none, or NaN
  std::vector<uint64_t> not_finite;         // by rank: how many NaN and infinities it logged
  std::vector<uint64_t> highest;            // by rank: at how many steps it had the largest value
  uint64_t compared = 0;                    // steps at which ranks differed
  uint64_t rows_left_out = 0;               // the oldest rows of long runs
};

struct RankMatrixOptions {
  size_t most_steps = 600;         // a heat map has no more columns
  size_t most_cells = 100'000;     // fewer steps for more ranks
  uint64_t most_rows = 1'000'000;  // of all ranks together; half a second of reading
};

// Reads the rows of all ranks. Of a step that a rank logged several times, the last value counts.
absl::StatusOr<RankMatrix> ReadRankMatrix(storage::StoreReader& reader, int64_t run,
                                          const std::string& metric,
                                          const RankMatrixOptions& options = {});

}  // namespace ranklog::ui

#endif  // SERVICE_UI_CURVES_RANK_MATRIX_H_
