// The rows of one stream that wait for their step to close, and how far the stream has come.

#ifndef SERVICE_AGGREGATE_STREAM_ROWS_H_
#define SERVICE_AGGREGATE_STREAM_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "service/aggregate/open_rows.h"

namespace ranklog::aggregate {

inline constexpr int64_t kNoStep = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kEveryStep = std::numeric_limits<int64_t>::max();

struct StreamRows {
  int64_t id = 0;
  uint32_t index = 0;  // among the run's streams
  uint32_t rank = 0;
  bool primary = false;
  std::vector<std::vector<std::string>> shapes;
  OpenRows rows;
  uint64_t added_seq = 0;
  int64_t added_step = kNoStep;
  uint64_t consumed_seq = 0;
  uint64_t late_rows = 0;
  uint64_t reported_seq = 0;
  uint64_t reported_late = 0;
  int64_t passed_step = kNoStep;

  // What AddStream told: true once the rows up to expected_seq are here.
  uint64_t expected_seq = 0;
  int64_t told_passed_step = kNoStep;
  bool told_ended = false;

  bool waited_out = false;  // it was waited for in vain, and has been silent since

  bool ended() const { return told_ended && added_seq >= expected_seq; }
  int64_t passed() const {
    if (ended()) return kEveryStep;
    return added_seq >= expected_seq ? std::max(passed_step, told_passed_step) : passed_step;
  }
  void Pop() {
    consumed_seq = rows.front().seq;
    rows.Pop();
  }
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_STREAM_ROWS_H_
