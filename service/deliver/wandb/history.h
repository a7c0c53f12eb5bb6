// A run's rows as the lines of wandb-history.jsonl, and what follows from the rows: the summary.

#ifndef SERVICE_DELIVER_WANDB_HISTORY_H_
#define SERVICE_DELIVER_WANDB_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_summary.h"
#include "service/deliver/json_writer.h"
#include "service/deliver/wandb/line_steps.h"
#include "service/model/batch.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// Lines ready to stand in a post's array, one per row.
struct HistoryLines {
  struct TooLong {
    uint64_t row;
    size_t bytes;
    std::string content;  // its start
  };

  uint64_t first = 0;             // row of the first line
  std::string content;            // quoted, escaped, with commas between
  std::vector<size_t> ends;       // of the lines in `content`, without the comma
  std::vector<int64_t> steps;     // of the lines
  size_t line_bytes = 0;          // of the lines as the server sees them
  std::vector<TooLong> too_long;  // rows that only a bare line stands for

  uint64_t end() const { return first + ends.size(); }
  // The lines of `rows` rows from `row` on, all of them among these.
  absl::string_view Of(uint64_t row, uint64_t rows) const;
  // One line as the server would see it, or the first 64 KiB of it.
  std::string Shown(uint64_t row) const;
};

// Is told the run's rows in their order, from row 0. Not thread-safe.
//
// A line has the row's values, what StepSync adds, `_timestamp`, `_runtime` and `_step` (see
// LineSteps). A row's own `_step` and `_runtime` are left out, as the official client does; its own
// `_timestamp` stands. A row whose line would be over the server's limit, or that the server
// refused, keeps its place by a bare line: one without values.
class History {
 public:
  // `start_us`: Unix time at which the run's clock stood at 0. `table` outlives this.
  History(const aggregate::MetricTable* table, int64_t start_us, size_t max_line_bytes);

  uint64_t next() const { return next_; }  // the row that is expected
  // Write() stopped before it, since it is a replay.
  bool at_replay() const { return at_replay_; }

  // Another store had brought the run to this step. While no row was written.
  void StartBehind(int64_t step);

  // Takes the rows from next() up to `to` without writing them: they are delivered.
  void Skip(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
            uint64_t to);
  // Takes the replays that are next, up to another row or row `to`.
  void SkipReplays(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
                   uint64_t to);
  // Writes the rows up to `to` behind `lines`. Stops after the line that reaches `max_bytes` in
  // all, and before a replay.
  void Write(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
             uint64_t to, size_t max_bytes, const std::set<uint64_t>& bare, HistoryLines* lines);

  // Remembers next(), for going back to it: the same rows make the same lines again.
  void Mark();
  void Rewind();

  // Rows that are taken again after a Rewind() count once, replays too.
  aggregate::RunSummary& summary() { return summary_; }
  // Its ToJson(), with the last step that the tracker has.
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

  const int64_t start_us_;
  const size_t max_line_bytes_;
  uint64_t next_ = 0;
  uint64_t mark_ = 0;
  uint64_t summarized_ = 0;      // rows below are in the summary
  int64_t last_line_step_ = -1;  // of these
  bool at_replay_ = false;
  LineSteps steps_;
  LineSteps steps_at_mark_;
  std::optional<aggregate::StepSync> sync_;  // always there; optional, for emplace()
  std::optional<aggregate::StepSync> sync_at_mark_;
  aggregate::RunSummary summary_;
  std::map<uint32_t, RowFormat> formats_;
  std::vector<double> added_;  // by the plan, of the row at hand
};

// The rows [first, last] of a batch that has them.
model::Batch Slice(const model::Batch& batch, uint64_t first, uint64_t last);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_HISTORY_H_
