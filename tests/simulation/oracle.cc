#include "tests/simulation/oracle.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/simulation/number.h"

namespace ranklog::simulation {

std::string RingRecord::Key(size_t part) const {
  return absl::StrCat("r", rank, ".", absl::Hex(incarnation), ".", part, "/id");
}

RingRecord* Oracle::AddRing(uint32_t rank, uint32_t thread, uint64_t incarnation) {
  rings_.push_back(std::make_unique<RingRecord>());
  rings_.back()->rank = rank;
  rings_.back()->thread = thread;
  rings_.back()->incarnation = incarnation;
  return rings_.back().get();
}

int64_t Oracle::LastStep() const {
  int64_t last = 0;
  for (const auto& ring : rings_) {
    if (!ring->rows.empty()) last = std::max(last, ring->rows.back().step);
  }
  return last;
}

const RingRecord* Oracle::RingOf(const model::Stream& stream) const {
  for (const auto& ring : rings_) {
    if (ring->incarnation == stream.key.incarnation) return ring.get();
  }
  return nullptr;
}

std::vector<std::string> Oracle::Judge(uint32_t node, storage::StoreReader& reader,
                                       const std::vector<Removed>& removed,
                                       const Tracker& tracker) {
  wrong_.clear();
  seen_.clear();
  starts_.clear();
  peers_of_.clear();
  job_of_start_.clear();
  const auto runs = reader.Runs();
  if (!runs.ok()) return {runs.status().ToString()};
  for (const model::Run& run : *runs) JudgeRun(node, reader, run, tracker);
  for (const Removed& gone : removed) {
    const auto before = storage::StoreReader::Open(gone.state_dir);
    if (!before.ok()) return {before.status().ToString()};
    JudgeRun(node, **before, gone.run, tracker);
  }
  if (const absl::Status sound = reader.Check(); !sound.ok()) Wrong(sound.ToString());
  for (const auto& ring : rings_) {
    const uint64_t due = ring->lost_with_node ? ring->acknowledged : ring->rows.size();
    if (ring->node == node && due > 0 && seen_.count(ring->incarnation) == 0) {
      Wrong("rank ", ring->rank, " thread ", ring->thread, ": the store knows none of ", due,
            " rows");
    }
  }
  return wrong_;
}

void Oracle::Know(uint32_t node, storage::StoreReader& reader, const Tracker& tracker) {
  const auto runs = reader.Runs();
  if (!runs.ok()) return;
  for (const model::Run& run : *runs) {
    rows_[run.run_id][node] = run.rows;
    if (joined_ranks > 0) KnowStreams(node, reader, run);
    if (!resumed_elsewhere || node == 0 || run.rows == 0) continue;
    FindReplays(reader, run, tracker);
    rows_[run.run_id][node] -= resumed_[run.run_id].replays.size();
  }
}

void Oracle::JudgeRun(uint32_t node, storage::StoreReader& reader, const model::Run& run,
                      const Tracker& tracker) {
  if (run.state == model::RunState::kRunning) Wrong("run ", run.run_id, " was never closed");
  const auto deliveries = reader.Deliveries(run.id);
  for (const model::Delivery& delivery : *deliveries) {
    if (!delivery.complete) Wrong("run ", run.run_id, " is not delivered: ", delivery.last_error);
    if (delivery.delivered_rows != run.rows) {
      Wrong("run ", run.run_id, ": ", delivery.delivered_rows, " of ", run.rows, " delivered");
    }
  }
  const auto streams = reader.Streams(run.id);
  last_process_.clear();
  for (const model::Stream& stream : *streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr) continue;
    last_process_[ring->rank] = std::max(last_process_[ring->rank], ring->process);
  }
  // Under `main`, one run of the job goes to the tracker: that of rank 0, unless a power cut left
  // nothing of it.
  if (!run.primary_chosen) Wrong("run ", run.run_id, " has no primary");
  const bool has_rank0 = last_process_.contains(0);
  if (run.settings.strategy == model::LogStrategy::kMain && !has_rank0 && !moves) {
    // A second start at the first node may have the id that rank 2 of the first start has here.
    const bool is_the_first_nodes = run.local_only && rows_[run.run_id].count(0) > 0;
    if (tracker.server().runs().count(run.run_id) > 0 && !is_the_first_nodes) {
      Wrong(run.run_id, " left its node");
    }
    MakeLines(reader, run);
  } else {
    JudgeAtTracker(node, reader, run, *streams, tracker);
  }
  ReadReplays(reader, run);
  JudgeAttempts(run, *streams);
  for (const char* metric : {kShared, kLoss}) JudgeStatistics(metric, run, *streams);
  for (const model::Stream& stream : *streams) JudgeStream(reader, run, stream);
  JudgeEnd(run, *streams);
}

// The daemon knew this ring only after it had ended the first ring of its process, or the reverse.
// Then it cannot tell the process from a later one with the same number.
bool Oracle::HeardSeparately(const model::Stream& stream,
                             const std::vector<model::Stream>& streams) const {
  const RingRecord* const ring = RingOf(stream);
  return std::any_of(streams.begin(), streams.end(), [&](const model::Stream& other) {
    const RingRecord* const first = RingOf(other);
    return first != nullptr && first->rank == ring->rank && first->process == ring->process &&
           (other.ended_us <= stream.started_us || stream.ended_us <= other.started_us);
  });
}

// The last process of a restarted rank counts. An earlier one may count if the daemon saw its end
// only after the next one had begun.
void Oracle::JudgeEnd(const model::Run& run, const std::vector<model::Stream>& streams) {
  bool crashed = false, failed = false, may_be_crashed = false, may_be_failed = false;
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr) continue;
    const bool last = ring->process == last_process_[ring->rank];
    if (!last && ring->ended_before_next && !HeardSeparately(stream, streams)) continue;
    const bool crash = stream.state == model::StreamState::kCrashed;
    const bool failure = stream.exit_code != 0;
    crashed |= last && crash;
    failed |= last && failure;
    may_be_crashed |= crash;
    may_be_failed |= failure;
  }
  using model::RunState;
  const bool right = run.state == RunState::kCrashed  ? may_be_crashed
                     : run.state == RunState::kFailed ? may_be_failed && !crashed
                                                      : !crashed && !failed;
  if (!right) {
    Wrong("run ", run.run_id, " is ", std::string(Name(run.state)), "; crashed ", crashed, " or ",
          may_be_crashed, ", failed ", failed, " or ", may_be_failed);
  }
}

void Oracle::JudgeStream(storage::StoreReader& reader, const model::Run& run,
                         const model::Stream& stream) {
  const RingRecord* const ring = RingOf(stream);
  if (ring == nullptr) return Wrong("a stream of nobody");
  if (!stream.peer.empty()) return JudgeStreamOfPeer(reader, stream, *ring);
  seen_[ring->incarnation] = ring;
  const auto its_start = starts_.try_emplace(stream.job_id, ring->start).first;
  const auto its_job = job_of_start_.try_emplace(ring->start, stream.job_id).first;
  if (its_start->second != ring->start || its_job->second != stream.job_id) {
    Wrong("rank ", ring->rank, " thread ", ring->thread, " of start ", ring->start,
          " is in the job ", stream.job_id, ", with start ", its_start->second);
  }
  const std::string who = absl::StrCat("rank ", ring->rank, " thread ", ring->thread, ": ");
  const uint64_t due = ring->lost_with_node ? ring->acknowledged : ring->rows.size();
  if (stream.durable_seq < due || stream.durable_seq > ring->rows.size()) {
    Wrong(who, stream.durable_seq, " rows are durable; logged ", ring->rows.size(),
          ", acknowledged ", ring->acknowledged);
    return;
  }
  if (stream.aggregated_seq != stream.durable_seq) {
    Wrong(who, "only ", stream.aggregated_seq, " of ", stream.durable_seq, " rows are used");
  }
  const bool finished = ring->lost_with_node ? ring->end_acknowledged : ring->finished;
  if (stream.state == model::StreamState::kLive) Wrong(who, "its stream is live for ever");
  if (finished && stream.state != model::StreamState::kFinished)
    Wrong(who, "is not finished: ", stream.reason);
  if (!finished && !ring->lost_with_node && stream.state != model::StreamState::kCrashed) {
    Wrong(who, "crashed unseen");
  }
  if (finished && stream.exit_code != ring->exit_code) Wrong(who, "has another exit code");
  if (!ring->lost_with_node && stream.losses.ring_full != ring->refused) {
    Wrong(who, ring->refused, " rows were refused, ", stream.losses.ring_full, " are counted");
  }
  if (expect_no_late_rows && stream.late_rows > 0) {
    Wrong(who, stream.late_rows, " rows are counted as late, though all came in time");
  }
  JudgeItems(reader, stream, *ring);
  JudgeRaw(reader, stream, *ring);
  if (stream.primary) JudgeLines(run, stream, *ring);
}

void Oracle::JudgeRaw(storage::StoreReader& reader, const model::Stream& stream,
                      const RingRecord& ring) {
  const auto shapes = reader.Shapes(stream.id);
  uint64_t expected = 1;
  uint64_t after = 0;
  while (true) {
    const auto batches = reader.StreamBatches(stream.id, after, 1 << 20);
    if (!batches.ok()) return Wrong(batches.status().ToString());
    if (batches->empty()) break;
    for (const storage::StoredBatch& stored : *batches) {
      after = stored.batch.last;
      model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t seq) {
        if (seq != expected++ || seq > ring.rows.size()) {
          return Wrong("rank ", ring.rank, ": row ", seq, " is stored out of order");
        }
        const LoggedRow& logged = ring.rows[seq - 1];
        bool same = block.steps[row] == logged.step && block.width() == logged.numbers.size();
        for (size_t i = 0; same && i < logged.numbers.size(); ++i) {
          same = (*shapes)[block.shape][i] == logged.numbers[i].first &&
                 SameBits(block.values[row * block.width() + i], logged.numbers[i].second);
        }
        if (!same) Wrong("rank ", ring.rank, ": row ", seq, " is stored with other values");
      });
    }
  }
  if (expected != stream.durable_seq + 1) {
    Wrong("rank ", ring.rank, ": ", expected - 1, " rows stored of ", stream.durable_seq);
  }
}

}  // namespace ranklog::simulation
