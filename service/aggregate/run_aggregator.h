// Makes a run's rows from its ranks' rows: merges what one rank logged at one step, joins the statistics over
// the ranks, and gives each row its place. Does no I/O and knows no clock: what it is told is all it knows.

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
    uint64_t seq;        // rows up to this one are used up
    uint64_t late_rows;  // of the stream, in total
  };
  std::vector<NewShape> shapes;
  std::vector<model::Batch> batches;  // positions are row indexes of the run, going on from `rows`
  std::vector<Consumed> consumed;
  int64_t last_step = -1;

  bool empty() const { return batches.empty() && consumed.empty(); }
};

// One per run. Not thread-safe.
//
// When a step closes: every primary stream that is live has passed it (however long that takes: the primary
// rank's rows are the run, and never late), and every other live stream has passed it or `step_wait` has gone
// by since the primaries passed it. A stream passes a step by a row with a larger one, by a row that commits
// it, by Progress, or by ending. What a stream brings for a step that is closed is late: counted, and left out.
//
// Rows of the other ranks count only where the primary has a row at that step.
class RunAggregator {
 public:
  struct Options {
    std::vector<std::string> rank_statistics;  // as RunSettings; empty: mean min max std argmax
    bool statistics = true;                    // false for `all`
    absl::Duration step_wait = absl::Seconds(30);
  };

  // `run` and `shapes` as stored: a run taken up again goes on where it was.
  RunAggregator(const model::Run& run, std::vector<std::vector<std::string>> run_shapes, Options options);
  ~RunAggregator();

  // A stream joins, or its state is told anew. Rows after `stream.aggregated_seq` are expected.
  void AddStream(const model::Stream& stream);
  // Tells the keys of a stream's shape; before the first batch that uses it.
  void DefineShape(int64_t stream, uint32_t shape, const std::vector<std::string>& keys);
  // The next rows of a stream; rows seen before are skipped.
  void AddRows(int64_t stream, const model::Batch& batch);
  void SetProgress(int64_t stream, int64_t passed_step);
  void EndStream(int64_t stream);

  // Closes what can be closed at `now` (of a steady clock).
  Aggregated Advance(absl::Time now);
  // When Advance() should be called again though nothing came: infinite future if never.
  absl::Time NextDeadline() const;

  // Values held for open steps; the caller stops adding rows of streams that are ahead while this is too many.
  size_t open_values() const;
  bool all_streams_ended() const;  // and all that was added is closed

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RUN_AGGREGATOR_H_
