// Makes the rows of a run from the rows of its ranks. Merges the rows of each rank at one step,
// adds the statistics over the ranks, and gives each row its index. Does no I/O and reads no clock:
// all input comes from the calls.

#ifndef SERVICE_AGGREGATE_RUN_AGGREGATOR_H_
#define SERVICE_AGGREGATE_RUN_AGGREGATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/aggregate/join/aggregated.h"
#include "service/model/batch.h"
#include "service/model/rank_statistics.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// One per run. Not thread-safe.
//
// A step closes when every live primary stream has passed it, however long that takes, because the
// primary rank's rows are the run. Every other live stream must also have passed it, or `step_wait`
// must have elapsed since the primaries passed it. A stream passes a step with a row at a larger
// step, or with a row that commits the step. It also passes the step by its passed step in
// AddStream(), or by its end. No step closes before the first primary stream joins.
//
// Silent streams: in many programs only rank 0 logs, and the other ranks must not delay the run. A
// stream is silent if it has sent no row, or no row above the run's last row since a wait for it
// timed out. A step waits for a silent stream only until both of these are over:
//
//   first_row_wait  from the first step that the primaries passed, or from when the stream joined.
//                   A step waits as long for ranks of the node that have not attached.
//   silent_wait     from when the primaries passed this step.
//
// Late rows: within an attempt, the steps of a run's rows ascend. So a row of a stream is late if
// its step is not above the step of the run's last row. Late rows are counted and left out. A row
// of a primary is late only if its stream (a thread) joins behind the run's last row. A primary's
// row with a larger step always becomes a row of the run, even if the other ranks' rows of that
// step are gone.
//
// Attempts (model::Stream::attempt) are processed in order. An attempt ends when all its primary
// streams have ended; then the rows of the next attempt are taken. If the first row of an attempt
// has a step that the run already has, the run is rewound to that step; Aggregated::rewinds reports
// this. Rows up to the furthest step are replays, which are stored beside the run's rows. The steps
// of some rows only count the rows of their process from 0 (model::Block::counted). Such rows
// continue from the run's last row, unless the attempt's first row has a given step.
//
// Other ranks in a new attempt: a live stream continues in the next attempt. But if that attempt
// has another process of the same rank, the old stream's rows are replays. If a restarted rank logs
// a step again whose row was already taken, the new row is a replay, too. Such replays are counted
// and left out.
//
// Other ranks' rows have an effect only at steps at which the primary has a row. Rows at other
// steps are consumed without effect. But a thread of the primary rank may join late and have a row
// at such a step. Then the consumed rows of that step become late, if they are still remembered.
// The last kMaxPassedRows of each stream are remembered until all streams have ended. During that
// time Aggregated does not report them as consumed. Texts of other ranks are left out.
//
// One row per step. It begins with the primary's rows of the step, merged by key. A later value
// replaces an earlier one (by time; within a stream, by sequence number). Keys are in order of
// first appearance. The row has the time of the last of these rows. The statistics follow, as
// rank_mean/<metric> and so on, for every metric that two or more ranks logged and that differs
// between ranks. Several streams of a rank count as one rank. If the primary itself logs such a
// name, its value stays.
//
// Metrics that differ between ranks: a metric differs from the first row on, replays included, at
// which two ranks logged different numbers. NaN equals NaN. Before that row, each statistic would
// equal the value or carry no information. The run's shapes show which metrics have differed, so a
// restarted daemon continues with the same ones. Therefore a metric also counts as different if the
// primary logs one of its statistics itself. JoinPlanner::kMaxChanges limits how often metrics may
// begin to differ.
class RunAggregator {
 public:
  struct Options {
    model::RankStatistics statistics{};
    absl::Duration step_wait = absl::Seconds(30);
    // Both waits are at most `step_wait`. A launcher starts its processes within seconds.
    absl::Duration first_row_wait = absl::Seconds(5);
    // The run has the ranks of all nodes of the job, as far as their daemons send them. Rows say how
    // many ranks a statistic is made of, unless it is the world size: rank_count/<metric>.
    bool joins_nodes = false;
    // Rows that ranks log at the same moment are read within 0.4 s of one another. Clients send
    // every 100 ms, the store commits every 50 ms, and the aggregate loop reads every 250 ms.
    absl::Duration silent_wait = absl::Seconds(1);
  };

  // `run` and `run_shapes` are read from the store. A resumed run continues where it was.
  RunAggregator(const model::Run& run, std::vector<std::vector<std::string>> run_shapes,
                Options options);
  ~RunAggregator();

  // Adds a stream, or updates its state. Rows from `stream.aggregated_seq` + 1 to `durable_seq`
  // must follow: the stream's passed step and its end take effect after they have been added.
  void AddStream(const model::Stream& stream);
  // Sets the keys of a stream's shape. Call it before the first batch with that shape.
  void DefineShape(int64_t stream, uint32_t shape, const std::vector<std::string>& keys);
  // Adds the next rows of an added stream; rows that were added before are skipped. Their steps
  // must ascend. A row with a smaller step than the previous one, or with an undefined shape, is
  // left out and counted as late.
  void AddRows(int64_t stream, const model::Batch& batch);
  // Marks the rows of a stream up to `through` that were not added as missing from the store.
  void SkipRows(int64_t stream, uint64_t through);
  // No further stream will join: rows that wait for a missing primary are consumed. AddStream()
  // reverts this.
  void CloseAll();

  // Closes the steps that can be closed at `now` (a steady clock).
  Aggregated Advance(absl::Time now);
  // Returns the time at which Advance() must be called again even without new input. Infinite
  // future: never.
  absl::Time NextDeadline() const;

  // The memory held for open steps, in units of a double. While it is too large, the caller must
  // not add rows of streams that are ahead.
  size_t open_values() const;
  // True if all streams have ended, and all added rows were closed and returned by Advance(). Rows
  // that wait for a missing primary are ignored.
  bool all_streams_ended() const;
  // The last added row of a stream; 0 if the stream is unknown.
  uint64_t added_seq(int64_t stream) const;
  // attempt(): the attempt whose rows are taken now; Advance() may have begun the next one.
  // takes(): whether rows of this stream are taken now. False if the stream belongs to a later
  // attempt, or waits for the primary's first row of this one.
  uint32_t attempt() const;
  bool takes(int64_t stream) const;
  // Whether this stream is the furthest behind of the streams that delay the next step. If so, read
  // its rows first, so that the other streams' rows can be used. True for all streams while no step
  // is delayed.
  bool holds_back(int64_t stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RUN_AGGREGATOR_H_
