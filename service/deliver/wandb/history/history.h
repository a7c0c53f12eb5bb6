// Converts a run's rows to the lines of wandb-history.jsonl, and computes the summary from the
// rows.

#ifndef SERVICE_DELIVER_WANDB_HISTORY_HISTORY_H_
#define SERVICE_DELIVER_WANDB_HISTORY_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_summary.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/history/line_steps.h"
#include "service/deliver/wandb/history/run_clock.h"
#include "service/model/batch.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// Lines in the form for a post's JSON array, one per row.
struct HistoryLines {
  struct TooLong {
    uint64_t row;
    size_t bytes;
    std::string content;  // the start of the line
  };

  uint64_t first = 0;             // row of the first line
  std::string content;            // quoted and escaped, separated by commas
  std::vector<size_t> ends;       // end of each line in `content`, without the comma
  std::vector<int64_t> steps;     // step of each line
  size_t line_bytes = 0;          // size of the lines as the server counts it
  std::vector<TooLong> too_long;  // rows that are represented only by a bare line

  uint64_t end() const { return first + ends.size(); }
  // The lines of `rows` rows starting at `row`; all of them must be in this object.
  absl::string_view Of(uint64_t row, uint64_t rows) const;
  // One line as the server receives it, or its first 64 KiB.
  std::string Shown(uint64_t row) const;
};

// Takes the run's rows in order, from row 0. Not thread-safe.
//
// A line has the row's values, the values that StepSync adds, `_timestamp`, `_runtime` and `_step`
// (see LineSteps). As in the official client, a row's own `_step` and `_runtime` are left out, but
// its own `_timestamp` is used. A row keeps its position by a bare line, which has no values, if
// its line exceeds the server's limit or the server refused it.
class History {
 public:
  // `table` must outlive this object. `imported`: as in model::RunSettings; the rows keep their
  // `_runtime`, and no step metric is added.
  History(const aggregate::MetricTable* table, RunClock clock, size_t max_line_bytes,
          bool imported = false);

  // Call it when the run has another attempt, before one of its rows is taken.
  void SetClock(RunClock clock) { clock_ = std::move(clock); }
  const RunClock& clock() const { return clock_; }

  uint64_t next() const { return next_; }  // the next expected row
  // Write() stopped before the next row, because it is a replay.
  bool at_replay() const { return at_replay_; }

  // Another store had brought the run to this step. Call it before any row is written.
  void SetFirstStep(int64_t step);

  // Takes the rows from next() up to `to` without writing them, because they are delivered.
  void Skip(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
            uint64_t to);
  // Takes the replays at next(), up to the first other row or row `to`.
  void SkipReplays(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
                   uint64_t to);
  // Appends the rows up to `to` to `lines`. Stops after the line that reaches `max_bytes` in total,
  // and before a replay.
  void Write(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
             uint64_t to, size_t max_bytes, const std::set<uint64_t>& bare, HistoryLines* lines);

  // Remembers next(), so that Rewind() can return to it. The same rows then make the same lines
  // again.
  void Mark();
  void Rewind();

  // Rows that are taken again after a Rewind() count once, and so do replays.
  aggregate::RunSummary& summary() { return summary_; }
  // summary().ToJson() with the last step that the tracker has.
  model::Json SummaryJson() const;

 private:
  enum class Rows { kAll, kReplays, kLines };
  void Take(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
            Rows rows, uint64_t to, size_t max_bytes, const std::set<uint64_t>& bare,
            HistoryLines* lines);
  void Summarize(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes);
  size_t AppendLine(const model::Block& block, size_t row, int64_t step,
                    const std::vector<std::string>& keys, const aggregate::StepSync::Plan& plan,
                    bool bare, std::string* out);
  const RowFormat& FormatOf(uint32_t shape, const std::vector<std::string>& keys);

  RunClock clock_;
  const size_t max_line_bytes_;
  const bool imported_;
  uint64_t next_ = 0;
  uint64_t mark_ = 0;
  uint64_t summarized_ = 0;      // rows below this one are in the summary
  int64_t last_line_step_ = -1;  // last step of these rows
  bool at_replay_ = false;
  LineSteps steps_;
  LineSteps steps_at_mark_;
  std::optional<aggregate::StepSync> sync_;  // always set; optional only for emplace()
  std::optional<aggregate::StepSync> sync_at_mark_;
  aggregate::RunSummary summary_;
  std::map<uint32_t, RowFormat> formats_;
  std::vector<double> added_;  // values that the plan adds to the current row
};

// The rows [first, last] of a batch that contains them.
model::Batch Slice(const model::Batch& batch, uint64_t first, uint64_t last);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_HISTORY_HISTORY_H_
