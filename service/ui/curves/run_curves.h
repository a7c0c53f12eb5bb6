#ifndef SERVICE_UI_CURVES_RUN_CURVES_H_
#define SERVICE_UI_CURVES_RUN_CURVES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_summary.h"
#include "service/model/run.h"
#include "service/query/row_reader.h"
#include "service/storage/store_reader.h"
#include "service/ui/curves/curve.h"

namespace ranklog::ui {

// The curves of all metrics of a run. Follows a run that grows: each update reads only new rows.
// Memory depends on the number of metrics only. Not thread-safe.
class RunCurves {
 public:
  // `most_buckets` of a curve; fewer if the run has thousands of metrics.
  explicit RunCurves(int64_t run, size_t most_buckets = 1000)
      : id_(run), most_buckets_(most_buckets) {}
  RunCurves(const RunCurves&) = delete;
  RunCurves& operator=(const RunCurves&) = delete;

  // Adds the rows that the run got since the last call. The first call reads all rows, which takes
  // about a second per 100 million values. If the run was rewound, begins again.
  absl::Status Update(storage::StoreReader& reader);

  // Instead of Update(), on a new object: adds some rows from all over the run, as many as can be
  // read in `budget`. The curves have their shape, but may lack peaks.
  absl::Status Sample(storage::StoreReader& reader, absl::Duration budget);

  // As of the last call of one of these.
  const model::Run& run() const { return run_; }
  // Null: the run has no numbers of this metric. Integers above 2^53, which the store keeps as texts,
  // are numbers here, rounded to doubles.
  const Curve* Find(const std::string& metric) const;
  const std::vector<std::string>& metrics() const { return names_; }  // by first appearance
  // Those of them that have no other numbers. The shapes of the run lack them.
  std::vector<std::string> MetricsOfTexts() const;
  // As W&B computes it, with the values that ranks set.
  absl::StatusOr<model::Json> Summary(storage::StoreReader& reader) const;
  // The number of rewinds: if it changes, earlier points are no longer valid.
  size_t rewinds() const { return rewinds_; }

 private:
  absl::Status ReadItems(storage::StoreReader& reader, const model::Run& run);
  absl::Status Begin(storage::StoreReader& reader, const model::Run& run);
  void Add(const model::Batch& batch, const query::Shapes& shapes);
  void AddRow(const model::Block& block, size_t row, const query::Shapes& shapes);
  size_t CurveOf(const std::string& metric);  // an index; makes the curve

  const int64_t id_;
  const size_t most_buckets_;
  size_t buckets_ = 0;  // of each curve of this run
  model::Run run_;      // before the first update: without rows
  bool begun_ = false;  // Update() has read rows, and no read has failed since
  size_t rewinds_ = 0;
  aggregate::MetricTable definitions_;
  std::optional<aggregate::RunSummary> summary_;  // set by the first read
  std::vector<std::string> names_;
  std::vector<Curve> curves_;
  std::map<std::string, size_t> index_;
  std::map<uint32_t, std::vector<size_t>> places_;  // by shape: an index per value
  std::set<size_t> texts_;                          // indexes of curves that got numbers of texts
};

}  // namespace ranklog::ui

#endif  // SERVICE_UI_CURVES_RUN_CURVES_H_
