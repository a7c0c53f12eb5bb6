// A run's summary: one current figure per metric, as W&B makes it.

#ifndef SERVICE_AGGREGATE_RUN_SUMMARY_H_
#define SERVICE_AGGREGATE_RUN_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_config.h"
#include "service/model/batch.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// One per run; is told all its rows, whose steps ascend, each once. Not thread-safe.
//
// Per metric, by its definition:
//   no summary option, or none of these    the latest value itself
//   min max mean last first                an object with those, e.g. {"min": 0.1, "last": 0.3}
//   best                                   with a goal: member "best", the min or the max; else no
//   effect none                                   no entry
// Numbers only make min, max, mean; one NaN makes all three NaN. The mean of finite numbers is
// finite. Texts count for the latest, last and first. Definitions may come before or after the
// rows: every figure is kept for every metric, and the definition decides only which are shown.
class RunSummary {
 public:
  // `table` outlives this.
  explicit RunSummary(const MetricTable* table) : table_(table) {}

  // The next rows of the run. `shapes` as StoreReader::RunShapes.
  void Add(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes);
  // One value more of the row of this step, such as one that StepSync added.
  void AddValue(absl::string_view key, double value, int64_t step);

  // Sets an explicit value, in place of what was set before under its key. It stands until a row of
  // its `before_step` or above has the metric, whether that was added before or will be.
  void Set(const SummaryValue& value);

  // The metrics by the order of their first row, then "_step" (an integer) and "_timestamp" (Unix
  // seconds) of the last row, then the explicit values that stand and are no metric's.
  // Without "_runtime", which is the backend's.
  model::Json ToJson() const;

 private:
  struct Figures {
    int64_t first_step = 0;
    int64_t last_step = 0;
    model::Json first;  // a text, if that is what came first; else null: see first_number
    model::Json last;
    double first_number = 0;
    double last_number = 0;
    double min = 0;
    double max = 0;
    double sum = 0;
    double small_sum = 0;  // of a part of each number, for when `sum` is larger than any number
    uint64_t count = 0;    // of numbers
    bool nan = false;
    bool any = false;  // number or text

    double mean() const;
  };

  size_t IndexOf(absl::string_view key);
  void AddNumber(Figures& figures, double value, int64_t step);
  void AddText(Figures& figures, const std::string& text, int64_t step);
  model::Json Shown(const std::string& key, const Figures& figures) const;

  const MetricTable* const table_;
  std::vector<std::string> keys_;  // by first appearance
  std::vector<Figures> figures_;   // by key
  std::map<std::string, size_t> index_;
  std::map<uint32_t, std::vector<size_t>> shape_indexes_;  // of figures_, by position in the row
  std::vector<SummaryValue> explicit_;  // by the order in which their keys were first set
  std::map<std::string, size_t> explicit_index_;
  uint64_t rows_ = 0;
  int64_t last_step_ = 0;
  int64_t last_time_us_ = 0;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RUN_SUMMARY_H_
