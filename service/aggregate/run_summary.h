// A run's summary: one current value per metric, as W&B computes it.

#ifndef SERVICE_AGGREGATE_RUN_SUMMARY_H_
#define SERVICE_AGGREGATE_RUN_SUMMARY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_config.h"
#include "service/model/batch.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// One per run. It must get all rows of the run once, with ascending steps. Not thread-safe.
//
// The definition of a metric decides its value in the summary:
//   no option, or none of these  the latest value
//   min max mean last first      an object with these members, such as {"min": 0.1, "last": 0.3}
//   best                         with a goal: member "best", the minimum or the maximum; without a
//                                goal: no effect
//   none                         no entry
// min, max and mean use only doubles; one NaN makes all three NaN. The mean of finite numbers is
// finite. Latest, last and first also use texts, bools, integers above 2^53, lists and objects. As
// in W&B's package, null and empty objects change nothing, and the latest object keeps the members
// of the one before it that it does not have itself. A definition addresses a whole object, not a
// value inside it. Definitions may come before or after the rows, because all values are kept for
// every metric. The definition only selects the values that are shown.
class RunSummary {
 public:
  // `table` must outlive this object.
  explicit RunSummary(const MetricTable* table) : table_(table) {}

  // Adds the next rows of the run. `shapes` as in StoreReader::RunShapes().
  void Add(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes);
  // Adds one more value to the row of this step, such as a value from StepSync.
  void AddValue(absl::string_view key, double value, int64_t step);

  // Sets an explicit value, which replaces an earlier one of its key. It is valid until a row of
  // its `before_step` or above has the metric, whether that row was added before or will be added
  // later.
  void Set(const SummaryValue& value);

  // The metrics in the order of their first row. Then "_step" (an integer) and "_timestamp" (Unix
  // seconds) of the last row. Then the valid explicit values whose key is not a metric. Without
  // "_runtime", which the tracker adds.
  model::Json ToJson() const;

 private:
  struct MetricSummary {
    int64_t first_step = 0;
    int64_t last_step = 0;
    // The first and the last value if they are not doubles; else see first_number, last_number.
    std::optional<model::Json> first;
    std::optional<model::Json> last;
    double first_number = 0;
    double last_number = 0;
    double min = 0;
    double max = 0;
    double sum = 0;
    double small_sum = 0;  // sum of a part of each number, in case `sum` overflows
    uint64_t count = 0;    // number of numbers
    bool nan = false;
    bool any = false;  // there was a value

    double mean() const;
  };

  size_t IndexOf(absl::string_view key);
  void AddNumber(MetricSummary& figures, double value, int64_t step);
  void AddText(MetricSummary& figures, const model::Text& text, int64_t step);
  // Empty: no entry.
  std::optional<model::Json> Shown(const std::string& key, const MetricSummary& figures) const;

  const MetricTable* const table_;
  std::vector<std::string> keys_;       // by first appearance
  std::vector<MetricSummary> figures_;  // by key
  std::map<std::string, size_t> index_;
  std::map<uint32_t, std::vector<size_t>> shape_indexes_;  // into figures_, by position
  std::vector<SummaryValue> explicit_;  // in the order in which their keys were first set
  std::map<std::string, size_t> explicit_index_;
  uint64_t rows_ = 0;
  int64_t last_step_ = 0;
  int64_t last_time_us_ = 0;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RUN_SUMMARY_H_
