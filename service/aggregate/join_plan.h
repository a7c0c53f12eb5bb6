// How the rows that the ranks logged at one step become one row of the run. Worked out once per
// combination of shapes; the steady path moves numbers only.

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
  uint32_t stream = 0;  // tells streams apart, and stays the stream's
  uint32_t shape = 0;   // of the stream
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
  // A metric that several ranks logged: sources [begin, end) of `reported`, one per rank.
  struct Joined {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t figures = 0;  // bits: 1 << index in kFigures
  };

  uint32_t shape = 0;          // of the run; 0: no numbers
  size_t width = 0;            // of the run's row
  std::vector<Source> copied;  // the primary's values, first in the row
  std::vector<Source> reported;
  std::vector<Joined> joined;

  // Writes the run's row: `width` numbers.
  void Fill(absl::Span<const StepRow> rows, double* values) const;
};

// One per run. Not thread-safe.
class JoinPlanner {
 public:
  static constexpr const char* kFigures[] = {"mean", "min", "max", "std", "argmin", "argmax"};

  // `figures`: as RunSettings::rank_statistics. `run_shapes`: those that are stored, by id.
  JoinPlanner(const std::vector<std::string>& figures,
              std::vector<std::vector<std::string>> run_shapes);

  // False: statistics are off, rows of other ranks are of no use.
  bool joins() const { return !figures_.empty(); }

  // `rows`: the primary's first, in the order in which they were logged, then those of each other
  // rank in turn. `masked`: keys of the primary to leave out, because a text has taken their place.
  // Valid until the next call.
  const JoinPlan& PlanFor(absl::Span<const StepRow> rows, const std::set<std::string>& masked);

  // The shapes that plans needed and that are not stored yet; once.
  std::vector<Aggregated::NewShape> TakeNewShapes();

 private:
  JoinPlan Make(absl::Span<const StepRow> rows, const std::set<std::string>& masked);
  uint32_t ShapeOf(std::vector<std::string> keys);

  std::vector<uint32_t> figures_;  // indexes of kFigures, in the order asked for
  absl::flat_hash_map<std::vector<std::string>, uint32_t> shapes_;
  uint32_t next_shape_ = 1;
  std::vector<Aggregated::NewShape> new_shapes_;

  using Signature = std::vector<uint64_t>;  // stream and shape of each row
  absl::flat_hash_map<Signature, JoinPlan> plans_;
  Signature signature_;
  const JoinPlan* last_plan_ = nullptr;  // that of last_signature_; points into plans_
  Signature last_signature_;
  JoinPlan masked_plan_;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_PLAN_H_
