// One live run: reads the rows of its streams, makes the run's rows, and detects its end.

#ifndef SERVICE_PIPELINE_LIVE_RUN_H_
#define SERVICE_PIPELINE_LIVE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {

// How a run ended, from its streams. The first rule that matches decides:
//   crashed   a stream crashed; reason and exit code (or 1) of the first stream that crashed
//   failed    a stream has an exit code other than 0; the primary's code comes first, then the
//             lowest rank's, with the reason if it did not call Finish()
//   finished  all other cases
//
// A stream does not count if its rank started again after the stream ended. `streams` must not be
// empty, and none may be live.
struct RunEnd {
  model::RunState state = model::RunState::kFinished;
  int32_t exit_code = 0;
  std::string reason;
  int64_t ended_us = 0;  // Unix time at which the last stream ended
};
RunEnd EndOf(const std::vector<model::Stream>& streams);

// The writes of one round for a run; they belong in one transaction.
struct RunWrite {
  std::vector<aggregate::Aggregated> results;
  bool close = false;
  RunEnd end;  // valid if `close`
  // Set if the run has no primary yet: the chosen primary and, below, the run's destinations.
  absl::optional<model::RunAssignment> primary;
  // Streams of other nodes that have not been heard of, to be ended at `lost_us`.
  std::vector<int64_t> lost_peers;
  int64_t lost_us = 0;
  std::vector<std::string> destinations;
  size_t bytes = 0;   // approximate size of the results
  bool more = false;  // there is more to read

  bool empty() const { return results.empty() && !close && !primary && lost_peers.empty(); }
  // Applies the writes within the caller's transaction. `closed` is false if `close` was set but a
  // stream has joined in the meantime.
  absl::Status Apply(storage::Store& store, int64_t run, bool* closed) const;
};

// Not thread-safe. Do not use it after a failed write: open another.
class LiveRun {
 public:
  struct Options {
    // See RunAggregator::Options.
    absl::Duration step_wait = absl::Seconds(30);
    absl::Duration first_row_wait = absl::Seconds(5);
    // How long a run without a primary waits for the node's first rank. Applies if the launcher
    // gives the number of ranks on the node, because then they will come. Otherwise the run waits
    // for `step_wait`.
    absl::Duration first_rank_wait = absl::Minutes(5);
    // How long a run whose streams have all ended waits for ranks of this node that never attached.
    absl::Duration close_wait = absl::Seconds(5);
    // Under `main`, the run joins the ranks of all nodes: those of other nodes come from their
    // daemons (service/peer).
    bool joins_nodes = false;
    // How long a run whose own ranks have all ended waits for a node of which nothing is heard.
    absl::Duration peer_wait = absl::Seconds(30);
    // When the daemon that sends this stream was last heard of, by the steady clock. Null: no
    // daemon sends anything here. From any thread.
    std::function<absl::Time(const model::Stream&)> heard = nullptr;
    size_t chunk_bytes = 1 << 20;  // bytes read from one stream at a time
    size_t round_bytes = 4 << 20;  // a round ends after so many bytes are read and made
  };

  // Continues from the stored state of the run.
  static absl::StatusOr<std::unique_ptr<LiveRun>> Open(storage::StoreReader& reader, int64_t run,
                                                       const Options& options);

  // One round: reads rows and makes the run's rows. Once `max_open_values` are held, streams that
  // are ahead are not read further. The result must be written before the next round. `now` is a
  // time of a steady clock.
  absl::StatusOr<RunWrite> Next(storage::StoreReader& reader, absl::Time now,
                                size_t max_open_values);

  // The run had ended when it was opened, and no stream has joined since: there is nothing to do.
  bool over() const { return run_.state != model::RunState::kRunning && shapes_.empty(); }
  // Time at which the next round is due without a notification.
  absl::Time NextDeadline() const { return deadline_; }
  size_t open_values() const { return aggregator_->open_values(); }
  const model::Run& run() const { return run_; }

 private:
  LiveRun(model::Run run, std::vector<std::vector<std::string>> shapes, const Options& options);

  std::unique_ptr<aggregate::RunAggregator> MakeAggregator(
      std::vector<std::vector<std::string>> shapes) const;
  absl::StatusOr<RunWrite> AwaitPrimary(storage::StoreReader& reader, absl::Time now);
  absl::Status Refresh(storage::StoreReader& reader);
  // Reads one chunk of each stream that has more rows and may be read. Adds the size to `bytes`.
  absl::Status ReadChunks(storage::StoreReader& reader, size_t max_open_values, size_t* bytes);
  absl::Status DefineShapes(storage::StoreReader& reader, int64_t stream,
                            const model::Batch& batch);
  bool CanBeClosed(absl::Time now);
  // Whether this run is the one of rank 0 in which the ranks of all nodes are joined.
  bool JoinsNodes() const;
  // How long to wait for ranks that never attached.
  absl::Duration CloseWait() const {
    return JoinsNodes() && options_.heard != nullptr ? options_.peer_wait : options_.close_wait;
  }
  // When a run whose streams have all ended is closed without them.
  absl::Time CloseTime() const;
  void FindLostPeers(absl::Time now, RunWrite* write);
  bool AllRead() const;
  bool AllRanksAttached() const;

  model::Run run_;  // as read at Open(), or when its primary was found
  const Options options_;
  std::unique_ptr<aggregate::RunAggregator> aggregator_;
  std::vector<model::Stream> streams_;               // all streams of the run, as last read
  std::map<int64_t, std::vector<bool>> shapes_;      // defined shape ids, by stream
  absl::Time waits_since_ = absl::InfiniteFuture();  // waiting for a primary since then
  // When all streams were first seen to have ended, and those of this daemon's ranks.
  absl::Time ended_since_ = absl::InfiniteFuture();
  absl::Time own_ended_since_ = absl::InfiniteFuture();
  absl::Time deadline_ = absl::InfiniteFuture();
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_LIVE_RUN_H_
