#ifndef SERVICE_AGGREGATE_JOIN_AGGREGATED_H_
#define SERVICE_AGGREGATE_JOIN_AGGREGATED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "service/model/batch.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// The results of RunAggregator::Advance(), to be stored in one transaction.
struct Aggregated {
  struct NewShape {
    uint32_t id;
    std::vector<std::string> keys;
  };
  struct Consumed {
    int64_t stream;
    uint64_t seq;            // rows up to this one are consumed
    uint64_t late_rows;      // of the stream, total
    uint64_t new_late_rows;  // of these, not in an earlier result
    uint64_t replayed_rows;  // as in model::Stream
    int64_t merged_rows;
    int64_t step_base;
  };
  std::vector<NewShape> shapes;
  std::vector<model::Batch> batches;  // positions are row indexes of the run, from its `rows` on
  std::vector<model::Batch> replays;  // from the run's `replays` on
  std::vector<model::Rewind> rewinds;
  std::vector<Consumed> consumed;
  // As in model::Run.
  int64_t last_step = -1;
  int64_t furthest_step = -1;
  uint32_t attempt = 1;
  int64_t step_base = 0;

  bool empty() const { return batches.empty() && consumed.empty(); }
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_JOIN_AGGREGATED_H_
