// Plans how the rows of the ranks at one step become one row of the run. A plan is made once per
// combination of shapes; after that, only numbers are moved.

#ifndef SERVICE_AGGREGATE_JOIN_PLAN_H_
#define SERVICE_AGGREGATE_JOIN_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "service/aggregate/run_aggregator.h"

namespace ranklog::aggregate {

// A row that takes part in a step.
struct StepRow {
  uint32_t stream = 0;  // unique and constant per stream
  uint32_t shape = 0;   // the shape's id in the stream
  uint32_t rank = 0;
  bool primary = false;
  const std::vector<std::string>* keys = nullptr;
  const double* values = nullptr;  // one per key
};

struct JoinPlan {
  struct Source {
    uint32_t row = 0;  // among the step's rows
    uint32_t position = 0;
    uint32_t rank = 0;
  };
  // A metric that several ranks logged: its sources are [begin, end) of `reported`, one per rank.
  struct Joined {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t figures = 0;  // bits: 1 << index in kFigures
  };

  uint32_t shape = 0;          // the shape's id in the run; 0: no numbers
  size_t width = 0;            // of the run's row
  std::vector<Source> copied;  // the primary's values; first in the row
  std::vector<Source> reported;
  std::vector<Joined> joined;

  // Writes the run's row: `width` numbers.
  void Fill(absl::Span<const StepRow> rows, double* values) const;
};

// One per run. Not thread-safe.
class JoinPlanner {
 public:
  static constexpr const char* kFigures[] = {"mean", "min", "max", "std", "argmin", "argmax"};

  // `figures` is RunSettings::rank_statistics. `run_shapes` are the stored shapes, by id.
  JoinPlanner(const std::vector<std::string>& figures,
              std::vector<std::vector<std::string>> run_shapes);

  // False if statistics are off. Then rows of other ranks have no effect.
  bool joins() const { return !figures_.empty(); }

  // Returns the plan for `rows`: first the primary's rows in the order of logging, then the rows of
  // each other rank. `masked` are keys of the primary that a text replaces, so their numbers are
  // left out. The plan is valid until the next call.
  const JoinPlan& PlanFor(absl::Span<const StepRow> rows, const std::set<std::string>& masked);

  // Returns the shapes that plans need and that are not stored yet. Returns each one only once.
  std::vector<Aggregated::NewShape> TakeNewShapes();

 private:
  JoinPlan Make(absl::Span<const StepRow> rows, const std::set<std::string>& masked);
  uint32_t ShapeOf(std::vector<std::string> keys);

  std::vector<uint32_t> figures_;  // indexes of kFigures, in the configured order
  absl::flat_hash_map<std::vector<std::string>, uint32_t> shapes_;
  uint32_t next_shape_ = 1;
  std::vector<Aggregated::NewShape> new_shapes_;

  using Signature = std::vector<uint64_t>;  // stream and shape of each row
  absl::flat_hash_map<Signature, JoinPlan> plans_;
  Signature signature_;
  const JoinPlan* last_plan_ = nullptr;  // the plan of last_signature_; points into plans_
  Signature last_signature_;
  JoinPlan masked_plan_;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_PLAN_H_
