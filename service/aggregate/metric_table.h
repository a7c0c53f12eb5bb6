// How the metrics of a run are to be treated: the definitions that its ranks sent, merged, found by
// key.

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
// A definition's name is a key as it is logged, or a prefix followed by "*". A dot has no meaning
// here; a tracker that gives it one (W&B: nesting) wants it escaped in what it is sent.
class MetricTable {
 public:
  // Defines, or merges into what is defined under this name: flags are or-ed, summaries are joined,
  // a step metric and a goal are replaced if given. `step_sync` counts only beside a step metric.
  // Doing it twice is harmless.
  void Define(const model::MetricDefinition& definition);

  // What counts for `key`: the definition of that name, else that of the longest prefix (never for
  // keys that start with "_"); null if there is none. Valid until the next Define(). A definition
  // that came by a prefix still has the prefix as its name.
  const model::MetricDefinition* Find(absl::string_view key) const;

  // In the order in which the names were first defined, globs included.
  const std::vector<model::MetricDefinition>& definitions() const { return definitions_; }
  // Grows with every Define() that changed something.
  uint64_t version() const { return version_; }

 private:
  std::vector<model::MetricDefinition> definitions_;
  std::map<std::string, size_t> by_name_;    // keys: indexes of definitions_
  std::map<std::string, size_t> by_prefix_;  // globs, without the star
  uint64_t version_ = 0;
};

// Adds what rows lack by `step_sync`: a row with a metric whose definition names a step metric gets
// the last value that the run's rows had under that step metric (0 if none had) when it has none
// itself.
//
// One per run; is told the run's rows in their order, from the first. Not thread-safe.
//
//   const StepSync::Plan& plan = sync.PlanFor(block.shape, shapes[block.shape]);
//   sync.Next(plan, values, &added);   // plan.added[i] has the value added[i] in this row
class StepSync {
 public:
  struct Plan {
    std::vector<std::string> added;  // the keys that rows of this shape lack

   private:
    friend class StepSync;
    uint64_t version = 0;  // of the table
    std::vector<size_t> added_slots;
    struct Learned {
      size_t position;  // among the row's values
      size_t slot;
    };
    std::vector<Learned> learned;
  };

  // `table` outlives this.
  explicit StepSync(const MetricTable* table) : table_(table) {}

  // What is to be done with rows of a shape of the run; made anew when the table has changed. Valid
  // until the next call. It cannot know of a row's texts: a row that has a text under a key of
  // `added` is to be left without, and a text is not remembered (the official client does the
  // same).
  const Plan& PlanFor(uint32_t shape, absl::Span<const std::string> keys);
  // The next row: sets `added` to the values of plan.added, and remembers the row's step metrics.
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
