// What the summary of a run has beyond the latest values of its metrics.

#ifndef SERVICE_DELIVER_MLFLOW_FORMAT_SUMMARY_H_
#define SERVICE_DELIVER_MLFLOW_FORMAT_SUMMARY_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_config.h"
#include "service/aggregate/run_summary.h"
#include "service/deliver/mlflow/api.h"
#include "service/deliver/mlflow/format/points.h"

namespace ranklog::deliver::mlflow {

// One per end of a run. It must get all rows of the run once. Not thread-safe.
class Summary {
 public:
  Summary(absl::Span<const model::StoredItem> items, absl::Span<const model::Stream> streams);
  Summary(const Summary&) = delete;
  Summary& operator=(const Summary&) = delete;

  // The latest values are the whole summary: no need to add rows.
  bool IsPlain() const { return plain_; }
  // Adds the rows of a batch from `next_row` on.
  void Add(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
           uint64_t to);
  // Appends points at the last step and this time, and tags.
  void Finish(const std::vector<std::vector<std::string>>& shapes, int64_t time_us, Slice* slice,
              Pairs* tags) const;

  uint64_t next_row = 0;
  std::set<std::string> sent;  // requests that were answered

 private:
  aggregate::MetricTable table_;
  aggregate::RunSummary summary_{&table_};
  std::set<std::string> set_by_ranks_;
  bool plain_ = true;
};

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_FORMAT_SUMMARY_H_
