// Plans how the rows of the ranks at one step become one row of the run. A plan is made once per
// combination of shapes; after that, only numbers are moved.

#ifndef SERVICE_AGGREGATE_JOIN_JOIN_PLAN_H_
#define SERVICE_AGGREGATE_JOIN_JOIN_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/aggregate/join/aggregated.h"
#include "service/model/rank_statistics.h"

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
    uint32_t figures = 0;  // bits as in model::RankStatistics
    bool counts = false;   // followed by the number of ranks
  };

  uint32_t shape = 0;          // the shape's id in the run; 0: no numbers
  size_t width = 0;            // of the run's row
  std::vector<Source> copied;  // the primary's values; first in the row
  std::vector<Source> reported;
  std::vector<Joined> joined;
  std::vector<Joined> equal;  // metrics without statistics, because no ranks have differed so far

  // Whether the metrics of `equal` are equal in these rows, too. Otherwise the plan is outdated.
  bool Holds(absl::Span<const StepRow> rows) const;
  // Writes the run's row: `width` numbers.
  void Fill(absl::Span<const StepRow> rows, double* values) const;
};

// One per run. Not thread-safe.
class JoinPlanner {
 public:
  // Each metric that begins to differ makes new shapes, which the store keeps. So after this many
  // rows that had such metrics, all metrics have statistics.
  static constexpr int kMaxChanges = 256;

  // `run_shapes` are the stored shapes, by id. They also show which metrics have differed.
  JoinPlanner(model::RankStatistics statistics, std::vector<std::vector<std::string>> run_shapes);

  // False if statistics are off. Then rows of other ranks have no effect.
  bool joins() const { return statistics_.any(); }

  // If it is not 0, statistics that are made of fewer ranks say so: rank_count/<metric>.
  void SetWorldSize(uint32_t world_size);

  // Returns the plan for `rows`: first the primary's rows in the order of logging, then the rows of
  // each other rank. `masked` are keys of the primary that a text replaces, so their numbers are
  // left out. The plan is valid until the next call.
  const JoinPlan& PlanFor(absl::Span<const StepRow> rows, const std::set<std::string>& masked);

  // Returns the shapes that plans need and that are not stored yet. Returns each one only once.
  std::vector<Aggregated::NewShape> TakeNewShapes();

 private:
  JoinPlan Make(absl::Span<const StepRow> rows, const std::set<std::string>& masked);
  void ForgetPlans();
  uint32_t ShapeOf(std::vector<std::string> keys);
  bool AddDiffering(absl::string_view metric);

  const model::RankStatistics statistics_;
  uint32_t world_size_ = 0;
  absl::flat_hash_set<std::string> differing_;  // metrics that have differed between ranks
  int changes_ = 0;                             // rows with new ones
  absl::flat_hash_map<std::vector<std::string>, uint32_t> shapes_;
  uint32_t next_shape_ = 1;
  std::vector<Aggregated::NewShape> new_shapes_;

  using Signature = std::vector<uint64_t>;  // stream and shape of each row
  absl::flat_hash_map<Signature, JoinPlan> plans_;
  size_t planned_sources_ = 0;
  Signature signature_;
  const JoinPlan* last_plan_ = nullptr;  // the plan of last_signature_; points into plans_
  Signature last_signature_;
  JoinPlan masked_plan_;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_JOIN_PLAN_H_
