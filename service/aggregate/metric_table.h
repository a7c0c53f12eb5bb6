// The metric definitions of a run: those that its ranks sent, merged, and found by key.

#ifndef SERVICE_AGGREGATE_METRIC_TABLE_H_
#define SERVICE_AGGREGATE_METRIC_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// One per run. Not thread-safe.
//
// The name of a definition is a logged key, or a prefix followed by "*". A dot has no special
// meaning here. For W&B it means nesting, so requests escape it.
class MetricTable {
 public:
  // Adds a definition, or merges it into the one of the same name. A merge ORs the flags, joins the
  // summaries, and replaces the step metric and the goal if given. `step_sync` has an effect only
  // with a step metric. Adding the same definition twice is harmless.
  void Define(const model::MetricDefinition& definition);

  // The definition for `key`: the one of that name, or else the one with the longest matching
  // prefix (never for keys that start with "_"). Null if there is none. Valid until the next
  // Define(). A definition that was found by prefix still has the prefix as its name.
  const model::MetricDefinition* Find(absl::string_view key) const;

  // In the order in which the names were first defined, globs included.
  const std::vector<model::MetricDefinition>& definitions() const { return definitions_; }
  // Grows with each Define() that has an effect.
  uint64_t version() const { return version_; }

 private:
  std::vector<model::MetricDefinition> definitions_;
  std::map<std::string, size_t> by_name_;    // keys: indexes of definitions_
  std::map<std::string, size_t> by_prefix_;  // globs, without the star
  uint64_t version_ = 0;
};

// Adds missing step metrics to rows, for `step_sync`. A metric's definition may name a step metric.
// If a row has the metric but not the step metric, the row gets the last value that
// earlier rows of the run had for the step metric, or 0.
//
// One per run. It must get the run's rows in their order, from the first. Not thread-safe.
//
//   const StepSync::Plan& plan = sync.PlanFor(block.shape, shapes[block.shape]);
//   sync.Next(plan, values, &added);   // plan.added[i] has the value added[i] in this row
class StepSync {
 public:
  struct Plan {
    std::vector<std::string> added;  // the keys that rows of this shape do not have

   private:
    friend class StepSync;
    uint64_t version = 0;  // of the table's definitions
    std::vector<size_t> added_slots;
    struct Learned {
      size_t position;  // among the row's values
      size_t slot;
    };
    std::vector<Learned> learned;
  };

  // `table` must outlive this object.
  explicit StepSync(const MetricTable* table) : table_(table) {}

  // The plan for rows of a shape of the run, updated if the table has changed. Valid until the next
  // call. A plan does not cover texts: if a row has a text under a key of `added`, the caller must
  // leave that key out. A text is not remembered as a last value (the official client does the
  // same).
  const Plan& PlanFor(uint32_t shape, absl::Span<const std::string> keys);
  // Processes the next row: sets `added` to the values of plan.added, and remembers the row's step
  // metrics.
  void Next(const Plan& plan, const double* values, std::vector<double>* added);

 private:
  size_t SlotOf(const std::string& step_metric);

  const MetricTable* const table_;
  std::map<uint32_t, Plan> plans_;
  std::map<std::string, size_t> slots_;  // step metrics: indexes of last_
  std::vector<double> last_;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_METRIC_TABLE_H_
