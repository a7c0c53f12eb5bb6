// The streams of a run, and their rows that wait for a step to close.

#ifndef SERVICE_AGGREGATE_RUN_STREAMS_H_
#define SERVICE_AGGREGATE_RUN_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "service/aggregate/join/aggregated.h"
#include "service/aggregate/join/stream_rows.h"
#include "service/model/session.h"

namespace ranklog::aggregate {

// One per run. `last_step` is the step of the run's last row. Not thread-safe.
class RunStreams {
 public:
  // `joins_nodes`: ranks of other nodes may come. If one comes, that is known without it.
  explicit RunStreams(bool joins_nodes = false) : joins_nodes_(joins_nodes) {}

  // Adds an unknown stream at its stored position. `step_base` is the offset of its steps if none
  // of its rows has been taken.
  void Add(const model::Stream& stream, int64_t step_base);
  // Updates the state of a stream that was added: the rows to expect, its passed step, and its end.
  void Update(const model::Stream& stream);

  // Null if the stream is unknown. Streams are never removed.
  StreamRows* Find(int64_t id) const;
  const std::vector<std::unique_ptr<StreamRows>>& all() const { return streams_; }
  const std::vector<StreamRows*>& primaries() const { return primaries_; }  // by id
  const std::vector<StreamRows*>& others() const { return others_; }        // by rank, id
  // Whether ranks of the node, or of all nodes, have not attached in this attempt.
  bool HasAbsentRanks() const {
    return ranks_.size() < (joins_nodes_ ? world_size_ : expected_ranks_);
  }
  // The ranks of the job, if they are joined across nodes; else 0.
  uint32_t joined_world_size() const { return joins_nodes_ ? world_size_ : 0; }

  // From now on, only ranks that may log in `attempt` count as attached. Calls DropReplaced().
  void BeginAttempt(uint32_t attempt, int64_t last_step);
  // If a rank is still live in an attempt before `attempt`, its later process counts from now on.
  void DropReplaced(uint32_t attempt, int64_t last_step);

  // The smallest step at which a primary has an open row; kEveryStep if there is none.
  int64_t NextPrimaryStep(int64_t last_step);
  // Consumes the other streams' rows below `step`, or all of them.
  void ConsumeOthersBelow(int64_t step, bool every, int64_t last_step);
  // Called when the row of `step` is made. It lacks the rows of that step that were consumed
  // earlier. They count as late, unless a later process of the rank has logged the step again.
  void SettlePassed(int64_t step);
  // Forgets the consumed rows of all streams: no remaining stream can have rows at their steps.
  void ForgetAllPassed();

  // The streams whose position or counts have changed since the last call.
  std::vector<Aggregated::Consumed> TakeConsumed();
  // The memory of the open rows, in units of a double.
  size_t open_values() const;

 private:
  bool LoggedAgain(const StreamRows& ended, int64_t step) const;

  std::vector<std::unique_ptr<StreamRows>> streams_;
  absl::flat_hash_map<int64_t, uint32_t> by_id_;  // indexes of streams_
  std::vector<StreamRows*> primaries_;
  std::vector<StreamRows*> others_;
  std::set<uint32_t> ranks_;     // ranks that have attached
  uint32_t expected_ranks_ = 0;  // on the node; 0: unknown
  bool joins_nodes_;
  uint32_t world_size_ = 0;  // in the newest attempt
  uint32_t newest_attempt_ = 0;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RUN_STREAMS_H_
