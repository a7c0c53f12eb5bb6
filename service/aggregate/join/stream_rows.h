// The rows of one stream that wait for their step to close, and the stream's progress.

#ifndef SERVICE_AGGREGATE_JOIN_STREAM_ROWS_H_
#define SERVICE_AGGREGATE_JOIN_STREAM_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/aggregate/join/open_rows.h"

namespace ranklog::aggregate {

inline constexpr int64_t kNoStep = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kEveryStep = std::numeric_limits<int64_t>::max();

// A row that was consumed although its step may still become a row of the run: a primary stream may
// still log that step.
struct PassedRow {
  int64_t step;
  uint64_t seq;
  bool counts;  // it has an effect on the step
};

// The number of these rows that a stream keeps. A ring attaches within about a second, in which a
// rank logs some thousand rows. Older rows are forgotten, and then not counted.
inline constexpr size_t kMaxPassedRows = 1024;

struct StreamRows {
  int64_t id = 0;
  uint32_t index = 0;  // index among the run's streams
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  bool primary = false;
  uint32_t attempt = 1;
  bool began_anew = false;  // it joined a later attempt, or restarted within one
  int64_t begun_step = -1;  // the run's last step when it began
  int64_t step_base = 0;    // as in model::Stream
  std::vector<std::vector<std::string>> shapes;
  OpenRows rows;
  std::deque<PassedRow> passed_rows;  // rows before `rows` and after consumed_seq
  uint64_t added_seq = 0;
  int64_t added_step = kNoStep;
  uint64_t consumed_seq = 0;
  uint64_t late_rows = 0;
  uint64_t replayed_rows = 0;
  int64_t merged_rows = 0;
  uint64_t reported_seq = 0;
  uint64_t reported_late = 0;
  uint64_t reported_replayed = 0;
  int64_t passed_step = kNoStep;

  // From AddStream(); effective once the rows up to expected_seq have been added.
  uint64_t expected_seq = 0;
  int64_t stream_passed_step = kNoStep;
  bool stream_ended = false;

  bool overtaken = false;  // live, but a later attempt has another process of its rank
  bool silent = true;      // it logged nothing, or nothing since a wait for it timed out
  absl::Time joined = absl::InfiniteFuture();

  bool ended() const { return stream_ended && added_seq >= expected_seq; }
  int64_t passed() const {
    if (ended() || overtaken) return kEveryStep;
    if (added_seq < expected_seq || stream_passed_step == kNoStep) return passed_step;
    return std::max(passed_step, stream_passed_step + step_base);
  }
  bool is_silent() const { return silent && added_seq >= expected_seq; }
  // Consumes its first row. `last_step` is the step of the run's last row.
  void Pop(int64_t last_step) {
    const OpenRow& row = rows.front();
    if (primary) merged_rows += static_cast<int64_t>(row.rows);
    Consume({row.step, row.seq, !row.dropped}, last_step);
    rows.Pop();
  }
  void Consume(const PassedRow& row, int64_t last_step) {
    if (passed_rows.empty() && (row.step <= last_step || primary || !row.counts)) {
      consumed_seq = row.seq;
      return;
    }
    passed_rows.push_back(row);
    if (passed_rows.size() > kMaxPassedRows) ForgetPassed();
  }
  void ForgetPassed() {
    consumed_seq = passed_rows.front().seq;
    passed_rows.pop_front();
  }
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_STREAM_ROWS_H_
