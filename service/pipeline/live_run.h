// One run while it lives: reads what its streams have brought, makes its rows, and knows when it is
// over.

#ifndef SERVICE_PIPELINE_LIVE_RUN_H_
#define SERVICE_PIPELINE_LIVE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/aggregate/run_aggregator.h"
#include "service/model/run.h"
#include "service/storage/store.h"

namespace ranklog::pipeline {

// How a run ended, from its streams: crashed if one of them crashed (with the reason of the first),
// else failed if one had an exit code other than 0 (the primary's before the others'; with the
// reason, if it did not call Finish()), else finished. A stream does not count if its rank has
// begun anew after it ended. `streams` are not empty, and none is live.
struct RunEnd {
  model::RunState state = model::RunState::kFinished;
  int32_t exit_code = 0;
  std::string reason;
  int64_t ended_us = 0;  // Unix time: when the last stream ended
};
RunEnd EndOf(const std::vector<model::Stream>& streams);

// What is to be written at once for a run.
struct RunWrite {
  std::vector<aggregate::Aggregated> results;
  bool close = false;
  RunEnd end;  // if `close`
  // The run has no primary: this one, and where the run goes then.
  absl::optional<model::RunAssignment> primary;
  std::vector<std::string> destinations;
  size_t bytes = 0;   // about what the results hold
  bool more = false;  // there is more to read

  bool empty() const { return results.empty() && !close && !primary; }
  // Applies it, in one transaction of the caller's. `closed` is false where `close` was wanted and
  // a stream has joined meanwhile.
  absl::Status Apply(storage::Store& store, int64_t run, bool* closed) const;
};

// Not thread-safe. After a write that failed it is of no use: open another.
class LiveRun {
 public:
  struct Options {
    // As RunAggregator's.
    absl::Duration step_wait = absl::Seconds(30);
    absl::Duration first_row_wait = absl::Seconds(5);
    // How long a run without a primary waits for the node's first rank: so long where the launcher
    // says how many ranks the node has, for they will come; `step_wait` where nobody knows.
    absl::Duration first_rank_wait = absl::Minutes(5);
    // How long a run whose streams have all ended waits for ranks of this node that never came.
    absl::Duration close_wait = absl::Seconds(5);
    size_t chunk_bytes = 1 << 20;  // read of one stream at a time
    size_t round_bytes = 4 << 20;  // read and made, after which a round ends
  };

  // Goes on where the store says that the run is.
  static absl::StatusOr<std::unique_ptr<LiveRun>> Open(storage::StoreReader& reader, int64_t run,
                                                       const Options& options);

  // One round: reads, and makes rows. Reads no more of streams that are ahead once
  // `max_open_values` are held. What it returns must be written before the next round. `now` is of
  // a steady clock.
  absl::StatusOr<RunWrite> Next(storage::StoreReader& reader, absl::Time now,
                                size_t max_open_values);

  // The run had ended when it was opened, and no stream has joined since: there is nothing to do.
  bool over() const { return run_.state != model::RunState::kRunning && shapes_.empty(); }
  // When another round is due though nothing came.
  absl::Time NextDeadline() const { return deadline_; }
  size_t open_values() const { return aggregator_->open_values(); }
  const model::Run& run() const { return run_; }

 private:
  LiveRun(model::Run run, std::vector<std::vector<std::string>> shapes, const Options& options);

  std::unique_ptr<aggregate::RunAggregator> MakeAggregator(
      std::vector<std::vector<std::string>> shapes) const;
  absl::StatusOr<RunWrite> AwaitPrimary(storage::StoreReader& reader, absl::Time now);
  absl::Status Refresh(storage::StoreReader& reader);
  // Reads a chunk of every stream that has more and may be read; adds the bytes read.
  absl::Status ReadChunks(storage::StoreReader& reader, size_t max_open_values, size_t* bytes);
  absl::Status DefineShapes(storage::StoreReader& reader, int64_t stream,
                            const model::Batch& batch);
  bool CanBeClosed(absl::Time now);
  bool AllRead() const;
  bool AllRanksCame() const;

  model::Run run_;  // as it was when opened, or when its primary was found to be chosen
  const Options options_;
  std::unique_ptr<aggregate::RunAggregator> aggregator_;
  std::vector<model::Stream> streams_;               // all of the run's, as last read
  std::map<int64_t, std::vector<bool>> shapes_;      // by stream: which ids were defined
  absl::Time waits_since_ = absl::InfiniteFuture();  // for a primary
  absl::Time ended_since_ =
      absl::InfiniteFuture();  // when all streams were first seen to have ended
  absl::Time deadline_ = absl::InfiniteFuture();
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_LIVE_RUN_H_
