// The rows of one stream that wait for their step to close, and how far the stream has come.

#ifndef SERVICE_AGGREGATE_STREAM_ROWS_H_
#define SERVICE_AGGREGATE_STREAM_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/aggregate/open_rows.h"

namespace ranklog::aggregate {

inline constexpr int64_t kNoStep = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kEveryStep = std::numeric_limits<int64_t>::max();

// A row that was used up though its step may still get a row of the run: it does where a primary
// stream brings that step late.
struct PassedRow {
  int64_t step;
  uint64_t seq;
  bool counts;  // it had a part in the step
};

// How many of them a stream keeps: a ring attaches within a second or so, in which a rank logs some
// thousand rows. Older ones are forgotten, and then not counted.
inline constexpr size_t kMaxPassedRows = 1024;

struct StreamRows {
  int64_t id = 0;
  uint32_t index = 0;  // among the run's streams
  uint32_t rank = 0;
  bool primary = false;
  uint32_t attempt = 1;
  bool began_anew = false;  // the run had been begun before
  int64_t begun_step = -1;  // the run's last when it began
  int64_t step_base = 0;    // as model::Stream's
  std::vector<std::vector<std::string>> shapes;
  OpenRows rows;
  std::deque<PassedRow> passed_rows;  // those before `rows`; consumed_seq is before them
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

  // What AddStream told: true once the rows up to expected_seq are here.
  uint64_t expected_seq = 0;
  int64_t told_passed_step = kNoStep;
  bool told_ended = false;

  bool overtaken = false;  // it lives, and a later attempt has another process of its rank
  bool silent = true;      // it has logged nothing, or nothing since it was waited for in vain
  absl::Time joined = absl::InfiniteFuture();

  bool ended() const { return told_ended && added_seq >= expected_seq; }
  int64_t passed() const {
    if (ended() || overtaken) return kEveryStep;
    if (added_seq < expected_seq || told_passed_step == kNoStep) return passed_step;
    return std::max(passed_step, told_passed_step + step_base);
  }
  bool is_silent() const { return silent && added_seq >= expected_seq; }
  // Its first row is used up. `last_step` is that of the last row of the run.
  void Pop(int64_t last_step) {
    const OpenRow& row = rows.front();
    if (primary) merged_rows += static_cast<int64_t>(row.rows);
    UsedUp({row.step, row.seq, !row.dropped}, last_step);
    rows.Pop();
  }
  void UsedUp(const PassedRow& row, int64_t last_step) {
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

#endif  // SERVICE_AGGREGATE_STREAM_ROWS_H_
