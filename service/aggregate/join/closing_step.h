// Makes the run's row for one step from the rows of its streams.

#ifndef SERVICE_AGGREGATE_JOIN_CLOSING_STEP_H_
#define SERVICE_AGGREGATE_JOIN_CLOSING_STEP_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "service/aggregate/join/batch_builder.h"
#include "service/aggregate/join/join_plan.h"
#include "service/aggregate/join/open_rows.h"
#include "service/aggregate/join/stream_rows.h"
#include "service/model/batch.h"

namespace ranklog::aggregate {

// Reused for every step, to keep its memory. Not thread-safe.
class ClosingStep {
 public:
  // Adds the row of `step` to `builder`. A primary stream must have a row at this step. Does not
  // remove rows from the streams. `primaries` are ordered by id, `others` by rank and id.
  void Close(int64_t step, const std::vector<StreamRows*>& primaries,
             const std::vector<StreamRows*>& others, JoinPlanner& planner, BatchBuilder& builder);

 private:
  void Gather(int64_t step, const StreamRows& stream);
  void SortByTime(size_t begin);
  std::vector<model::Text> MergeTexts(std::set<std::string>* masked) const;

  // For the step being closed: its rows, their entries in OpenRows, and their effective times. A
  // row's effective time is its own time, or the previous row's effective time if that is later,
  // because the clock may be set back.
  std::vector<StepRow> step_rows_;
  std::vector<const OpenRow*> open_rows_;
  std::vector<int64_t> times_us_;
  size_t primary_rows_ = 0;  // of step_rows_; they come first

  // Scratch memory of SortByTime().
  std::vector<size_t> order_;
  std::vector<StepRow> sorted_step_rows_;
  std::vector<const OpenRow*> sorted_open_rows_;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_CLOSING_STEP_H_
