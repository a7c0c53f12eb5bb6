// Makes a run's rows from its ranks' rows: merges what one rank logged at one step, joins the
// statistics over the ranks, and gives each row its place. Does no I/O and knows no clock: what it
// is told is all it knows.

#ifndef SERVICE_AGGREGATE_RUN_AGGREGATOR_H_
#define SERVICE_AGGREGATE_RUN_AGGREGATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/model/batch.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// What Advance() decided; to be stored in one transaction.
struct Aggregated {
  struct NewShape {
    uint32_t id;
    std::vector<std::string> keys;
  };
  struct Consumed {
    int64_t stream;
    uint64_t seq;            // rows up to this one are used up
    uint64_t late_rows;      // of the stream, in total
    uint64_t new_late_rows;  // of them, those that no earlier result has counted
    uint64_t replayed_rows;  // as model::Stream's
    int64_t merged_rows;
    int64_t step_base;
  };
  std::vector<NewShape> shapes;
  std::vector<model::Batch> batches;  // positions are row indexes of the run, going on from `rows`
  std::vector<model::Batch> replays;  // going on from its `replays`
  std::vector<model::Rewind> rewinds;
  std::vector<Consumed> consumed;
  // As model::Run's.
  int64_t last_step = -1;
  int64_t furthest_step = -1;
  uint32_t attempt = 1;
  int64_t step_base = 0;

  bool empty() const { return batches.empty() && consumed.empty(); }
};

// One per run. Not thread-safe.
//
// When a step closes: every primary stream that is live has passed it (however long that takes: the
// primary rank's rows are the run), and every other live stream has passed it or `step_wait` has
// gone by since the primaries passed it. A stream passes a step by a row with a larger one, by a
// row that commits it, by Progress, or by ending. Until the first primary stream joins nothing
// closes.
//
// A rank that logs nothing must not delay the run, since in many programs only rank 0 logs. So a
// step waits only briefly for a silent stream, which has brought no row, or none above the last one
// made since it was waited for in vain:
//
//   first_row_wait  from the first step that the primaries passed, or from when the stream joined.
//                   A rank of the node that has not attached counts as a silent one.
//   silent_wait     from when the primaries passed this step.
//
// The steps of a run's rows ascend within an attempt. So what a stream brings for a step that is
// not above the last row's is late: counted, and left out. For a primary that is so only if it
// joins (a thread) behind what the run has; a step above the last row's always becomes a row, even
// if the other ranks' part in it is gone.
//
// Attempts come one after the other (model::Stream::attempt). One ends when all of its primary
// streams have ended; then the rows of the next are taken. If its first row has a step that the run
// has, the run is rewound to there: Aggregated::rewinds says where, and rows up to the furthest
// step are replays, which go beside the run's rows. Rows that count those of their process from 0
// (model::Block::counted) count on from the run's last one, unless the attempt's first row is none
// of these. A stream of another rank that lives goes on in the next attempt, unless that has another
// process of the rank: then what the old one brings is replayed. What another rank that began anew
// logs again at a step behind those that are taken is replayed, too: counted, and left out.
//
// Rows of the other ranks count only where the primary has a row at that step; elsewhere they are
// used up unseen. A thread of the primary rank that joins late may bring a row at such a step: then
// each of them is late, as far as they are remembered (the last kMaxPassedRows of a stream, until
// all streams have ended). Until then Aggregated does not name them as consumed. Their texts are
// left out.
//
// One row per step: what the primary logged at it, merged by key, the later value over the earlier
// (by time; of one stream by sequence number), keys in order of first appearance, with the time of
// the last; then the statistics of every number that two or more ranks logged (several
// streams of a rank are one rank), as rank_mean/<metric> and so on. A name that the primary uses
// itself is left to it.
class RunAggregator {
 public:
  struct Options {
    std::vector<std::string> rank_statistics =
        {};                  // as RunSettings; empty: mean min max std argmax
    bool statistics = true;  // false for `all`
    absl::Duration step_wait = absl::Seconds(30);
    // Both at most `step_wait`. A launcher starts its processes within seconds of each other.
    absl::Duration first_row_wait = absl::Seconds(5);
    // Ranks that log at the same moment are read within 0.4 s of each other: clients send each
    // 100 ms, the store commits each 50 ms, and the aggregate loop reads each 250 ms.
    absl::Duration silent_wait = absl::Seconds(1);
  };

  // `run` and `shapes` as stored: a run taken up again goes on where it was.
  RunAggregator(const model::Run& run, std::vector<std::vector<std::string>> run_shapes,
                Options options);
  ~RunAggregator();

  // A stream joins, or its state is told anew. Rows from `stream.aggregated_seq` + 1 to
  // `durable_seq` are expected: its passed step and its end count once they have been added.
  void AddStream(const model::Stream& stream);
  // Tells the keys of a stream's shape; before the first batch that uses it.
  void DefineShape(int64_t stream, uint32_t shape, const std::vector<std::string>& keys);
  // The next rows of a stream that was added; rows seen before are skipped. Their steps ascend; a
  // row below the one before it, or of a shape that was not told, is left out and counted as late.
  void AddRows(int64_t stream, const model::Batch& batch);
  // The rows of a stream up to `through` that were not added are not in the store.
  void SkipRows(int64_t stream, uint64_t through);
  // Both after all the rows that came before it.
  void SetProgress(int64_t stream, int64_t passed_step);
  void EndStream(int64_t stream);
  // Nobody else will join: rows that wait for a primary that never came are used up. AddStream()
  // undoes it.
  void CloseAll();

  // Closes what can be closed at `now` (of a steady clock).
  Aggregated Advance(absl::Time now);
  // When Advance() should be called again though nothing came: infinite future if never.
  absl::Time NextDeadline() const;

  // What is held for open steps, in doubles' worth of memory; the caller stops adding rows of
  // streams that are ahead while this is too many.
  size_t open_values() const;
  // And all that was added is closed and told by Advance(), but for rows that wait for a primary
  // that never came.
  bool all_streams_ended() const;
  // The last row that was added of a stream; 0 if it is unknown.
  uint64_t added_seq(int64_t stream) const;
  // The attempt whose rows are taken; Advance() may have begun the next. And whether rows of this
  // stream are: it is not of a later one, and does not wait for the primary's first row of this
  // one.
  uint32_t attempt() const;
  bool takes(int64_t stream) const;
  // Whether the stream is the furthest behind of those that hold back the next step: what is read
  // of it lets others' rows go. True for all while nothing is held.
  bool holds_back(int64_t stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RUN_AGGREGATOR_H_
