#include "service/ui/curves/rank_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "absl/functional/function_ref.h"
#include "service/base/status_macros.h"
#include "service/model/batch.h"
#include "service/query/row_reader.h"

namespace ranklog::ui {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kPageBytes = 4 << 20;

// Calls `visit` with the step and the value of each row of the stream that has the metric.
absl::Status VisitValues(storage::StoreReader& reader, const model::Stream& stream,
                         uint64_t after_seq, const std::string& metric,
                         absl::FunctionRef<void(int64_t step, double value)> visit) {
  query::Shapes shapes;
  std::map<uint32_t, size_t> columns;  // by shape; the number of keys: the shape lacks the metric
  while (after_seq < stream.durable_seq) {
    ASSIGN_OR_RETURN(const query::Batches page,
                     reader.StreamBatches(stream.id, after_seq, kPageBytes));
    if (page.empty()) return absl::OkStatus();
    for (const storage::StoredBatch& stored : page) {
      RETURN_IF_ERROR(query::LearnShapes(
          stored.batch, [&] { return reader.Shapes(stream.id); }, &shapes));
      model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t seq) {
        if (seq <= after_seq || block.shape == 0) return;
        const int64_t step = block.steps[row] + (block.counted ? stream.step_base : 0);
        if (metric == kLag) return visit(step, static_cast<double>(block.times_us[row]) / 1e6);
        const auto [column, added] = columns.emplace(block.shape, 0);
        if (added) {
          const std::vector<std::string>& keys = shapes[block.shape];
          column->second =
              static_cast<size_t>(std::find(keys.begin(), keys.end(), metric) - keys.begin());
        }
        if (column->second == block.width()) return;
        visit(step, block.values[row * block.width() + column->second]);
      });
      after_seq = std::max(after_seq, stored.batch.last);
    }
  }
  return absl::OkStatus();
}

// At most `most` of the steps that it is shown, spread evenly over them.
class StepChoice {
 public:
  explicit StepChoice(size_t most) : most_(std::max<size_t>(most, 2)) {}

  void Add(int64_t step) {
    if (step == last_) return;
    last_ = step;
    if (shown_++ % stride_ != 0) return;
    steps_.push_back(step);
    if (steps_.size() <= most_) return;
    size_t kept = 0;
    for (size_t i = 0; i < steps_.size(); i += 2) steps_[kept++] = steps_[i];
    steps_.resize(kept);
    stride_ *= 2;
  }
  std::vector<int64_t> Take() {
    const std::set<int64_t> sorted(steps_.begin(), steps_.end());  // attempts repeat steps
    return {sorted.begin(), sorted.end()};
  }

 private:
  const size_t most_;
  uint64_t stride_ = 1;
  uint64_t shown_ = 0;
  int64_t last_ = std::numeric_limits<int64_t>::min();
  std::vector<int64_t> steps_;
};

void SubtractFirst(RankMatrix* matrix) {
  for (size_t at = 0; at < matrix->steps.size(); ++at) {
    double first = kNone;
    for (const std::vector<double>& row : matrix->values) first = std::fmin(first, row[at]);
    for (std::vector<double>& row : matrix->values) row[at] -= first;
  }
}

void CountHighest(RankMatrix* matrix) {
  matrix->highest.assign(matrix->ranks.size(), 0);
  for (size_t at = 0; at < matrix->steps.size(); ++at) {
    double low = kNone, high = kNone;
    size_t highest = 0;
    for (size_t i = 0; i < matrix->ranks.size(); ++i) {
      const double value = matrix->values[i][at];
      low = std::fmin(low, value);
      if (std::isnan(value) || value <= high) continue;
      high = value;
      highest = i;
    }
    if (!(low < high)) continue;  // one rank, or all the same
    ++matrix->compared;
    ++matrix->highest[highest];
  }
}

}  // namespace

absl::StatusOr<RankMatrix> ReadRankMatrix(storage::StoreReader& reader, int64_t run,
                                          const std::string& metric,
                                          const RankMatrixOptions& options) {
  ASSIGN_OR_RETURN(std::vector<model::Stream> streams, reader.Streams(run));
  std::stable_sort(
      streams.begin(), streams.end(),
      [](const model::Stream& a, const model::Stream& b) { return a.started_us < b.started_us; });
  RankMatrix matrix;
  std::set<uint32_t> ranks;
  for (const model::Stream& stream : streams) ranks.insert(stream.key.rank);
  const uint64_t share = options.most_rows / std::max<size_t>(streams.size(), 1) + 1;
  const auto after = [&](const model::Stream& stream) {
    return stream.durable_seq - std::min(stream.durable_seq, share);
  };
  const size_t most =
      std::min(options.most_steps, options.most_cells / std::max<size_t>(ranks.size(), 1));
  // The steps of the first rank that has the metric.
  for (const uint32_t rank : ranks) {
    StepChoice choice(most);
    for (const model::Stream& stream : streams) {
      if (stream.key.rank != rank) continue;
      RETURN_IF_ERROR(VisitValues(reader, stream, after(stream), metric,
                                  [&](int64_t step, double) { choice.Add(step); }));
    }
    matrix.steps = choice.Take();
    if (!matrix.steps.empty()) break;
  }
  struct RowOfRank {
    std::vector<double> values;
    uint64_t not_finite = 0;
    bool any = false;
  };
  std::map<uint32_t, RowOfRank> rows;
  for (const model::Stream& stream : streams) {
    matrix.rows_left_out += after(stream);
    RowOfRank& row = rows[stream.key.rank];
    row.values.resize(matrix.steps.size(), kNone);
    RETURN_IF_ERROR(
        VisitValues(reader, stream, after(stream), metric, [&](int64_t step, double value) {
          row.not_finite += std::isfinite(value) ? 0 : 1;
          const auto at = std::lower_bound(matrix.steps.begin(), matrix.steps.end(), step);
          if (at == matrix.steps.end() || *at != step) return;
          row.values[at - matrix.steps.begin()] = value;
          row.any = true;
        }));
  }
  for (auto& [rank, row] : rows) {
    if (!row.any) continue;
    matrix.ranks.push_back(rank);
    matrix.values.push_back(std::move(row.values));
    matrix.not_finite.push_back(row.not_finite);
  }
  if (metric == kLag) SubtractFirst(&matrix);
  CountHighest(&matrix);
  return matrix;
}

}  // namespace ranklog::ui
