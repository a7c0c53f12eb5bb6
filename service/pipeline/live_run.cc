#include "service/pipeline/live_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "service/aggregate/strategy.h"
#include "service/base/status_macros.h"
#include "service/deliver/destination.h"
#include "service/model/rank_statistics.h"

namespace ranklog::pipeline {
namespace {

using model::Stream;
using model::StreamState;

bool IsLive(const Stream& stream) { return stream.state == StreamState::kLive; }

// True for rings of one Init() and of processes forked after it. A program started by exec() is the
// same process but has another Init().
bool OfOneInit(const Stream& one, const Stream& other) {
  return one.init_us == other.init_us && one.identity.node == other.identity.node;
}

// A job that was restarted with fewer ranks no longer has this one.
bool HasLeft(const Stream& stream, const std::vector<Stream>& streams) {
  const auto newest =
      std::max_element(streams.begin(), streams.end(), [](const Stream& a, const Stream& b) {
        return std::pair(a.attempt, a.id) < std::pair(b.attempt, b.id);
      });
  return newest->attempt > stream.attempt && newest->identity.world_size <= stream.key.rank;
}

// Another ring of the same Init() is not a new start, even if the daemon received it only after the
// first ring had ended. A ring of an earlier attempt may be found late.
bool BeganAnew(const Stream& stream, const std::vector<Stream>& streams) {
  return std::any_of(streams.begin(), streams.end(), [&](const Stream& other) {
    if (other.key.rank != stream.key.rank) return false;
    if (other.attempt != stream.attempt) return other.attempt > stream.attempt;
    return other.id > stream.id && other.started_us >= stream.ended_us && !OfOneInit(stream, other);
  });
}

}  // namespace

RunEnd EndOf(const std::vector<Stream>& streams) {
  RunEnd end;
  const Stream* crashed = nullptr;
  const Stream* failed = nullptr;
  for (const Stream& stream : streams) {
    end.ended_us = std::max(end.ended_us, stream.ended_us);
    if (BeganAnew(stream, streams)) continue;
    if (HasLeft(stream, streams)) continue;
    if (stream.state == StreamState::kCrashed) {
      if (crashed == nullptr || stream.ended_us < crashed->ended_us) crashed = &stream;
    } else if (stream.exit_code != 0) {
      if (failed == nullptr || (stream.primary && !failed->primary)) failed = &stream;
    }
  }
  if (crashed != nullptr) {
    end.state = model::RunState::kCrashed;
    end.reason = crashed->reason;
    end.exit_code = crashed->exit_code != 0 ? crashed->exit_code : 1;
  } else if (failed != nullptr) {
    end.state = model::RunState::kFailed;
    end.exit_code = failed->exit_code;
    end.reason = failed->reason;
  }
  return end;
}

absl::Status RunWrite::Apply(storage::Store& store, int64_t run, bool* closed) const {
  if (primary) {
    ASSIGN_OR_RETURN(const bool chosen, store.ChoosePrimary(run, *primary));
    for (const std::string& kind : destinations) {
      if (chosen) RETURN_IF_ERROR(store.AddDelivery(run, absl::string_view(kind)));
    }
  }
  if (!lost_peers.empty()) {
    RETURN_IF_ERROR(store.EndPeers(run, lost_peers, model::kNotHeardOf, lost_us).status());
  }
  for (const aggregate::Aggregated& result : results) {
    for (const aggregate::Aggregated::NewShape& shape : result.shapes) {
      RETURN_IF_ERROR(store.DefineRunShape(run, shape.id, shape.keys));
    }
    for (const model::Rewind& rewind : result.rewinds) {
      RETURN_IF_ERROR(store.AddRewind(run, rewind));
    }
    for (const model::Batch& batch : result.batches) {
      RETURN_IF_ERROR(store.AppendRunRows(run, batch));
    }
    for (const model::Batch& batch : result.replays) {
      RETURN_IF_ERROR(store.AppendReplays(run, batch));
    }
    RETURN_IF_ERROR(store.SetPosition(
        run, {result.last_step, result.furthest_step, result.attempt, result.step_base}));
    for (const aggregate::Aggregated::Consumed& stream : result.consumed) {
      RETURN_IF_ERROR(
          store.SetAggregated(stream.stream, {stream.seq, stream.late_rows, stream.replayed_rows,
                                              stream.merged_rows, stream.step_base}));
    }
  }
  *closed = false;
  if (!close) return absl::OkStatus();
  const absl::Status status =
      store.CloseRun(run, end.state, end.exit_code, end.reason, end.ended_us);
  *closed = status.ok();
  return absl::IsInvalidArgument(status) ? absl::OkStatus() : status;
}

LiveRun::LiveRun(model::Run run, std::vector<std::vector<std::string>> shapes,
                 const Options& options)
    : run_(std::move(run)), options_(options), aggregator_(MakeAggregator(std::move(shapes))) {}

std::unique_ptr<aggregate::RunAggregator> LiveRun::MakeAggregator(
    std::vector<std::vector<std::string>> shapes) const {
  return std::make_unique<aggregate::RunAggregator>(
      run_, std::move(shapes),
      aggregate::RunAggregator::Options{.statistics = model::RankStatistics::OfRun(run_.settings),
                                        .step_wait = options_.step_wait,
                                        .first_row_wait = options_.first_row_wait,
                                        .joins_nodes = JoinsNodes()});
}

bool LiveRun::JoinsNodes() const {
  return options_.joins_nodes && run_.settings.strategy == model::LogStrategy::kMain &&
         run_.primary_chosen && run_.primary_rank == 0 && !run_.local_only &&
         !run_.settings.imported;
}

absl::StatusOr<std::unique_ptr<LiveRun>> LiveRun::Open(storage::StoreReader& reader, int64_t run,
                                                       const Options& options) {
  ASSIGN_OR_RETURN(model::Run stored, reader.GetRun(run));
  ASSIGN_OR_RETURN(std::vector<std::vector<std::string>> shapes, reader.RunShapes(run));
  return std::unique_ptr<LiveRun>(new LiveRun(std::move(stored), std::move(shapes), options));
}

absl::Status LiveRun::Refresh(storage::StoreReader& reader) {
  RETURN_IF_ERROR(reader.UpdateStreams(run_.id, &streams_));
  for (const Stream& stream : streams_) {
    const bool known = shapes_.contains(stream.id);
    // Skips streams that an earlier life of the run completed.
    if (!known && !IsLive(stream) && stream.aggregated_seq >= stream.durable_seq) continue;
    shapes_.try_emplace(stream.id);
    aggregator_->AddStream(stream);
  }
  return absl::OkStatus();
}

absl::Status LiveRun::DefineShapes(storage::StoreReader& reader, int64_t stream,
                                   const model::Batch& batch) {
  std::vector<bool>& defined = shapes_[stream];
  const bool all_known =
      std::all_of(batch.blocks.begin(), batch.blocks.end(), [&](const model::Block& block) {
        return block.shape == 0 || (block.shape < defined.size() && defined[block.shape]);
      });
  if (all_known) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto shapes, reader.Shapes(stream));
  // Not in the order of the ids: a rank may use an old shape late.
  if (defined.size() < shapes.size()) defined.resize(shapes.size());
  for (uint32_t shape = 1; shape < shapes.size(); ++shape) {
    if (defined[shape] || shapes[shape].empty()) continue;
    defined[shape] = true;
    aggregator_->DefineShape(stream, shape, shapes[shape]);
  }
  return absl::OkStatus();
}

absl::Status LiveRun::ReadChunks(storage::StoreReader& reader, size_t max_open_values,
                                 size_t* bytes) {
  for (const Stream& stream : streams_) {
    if (!shapes_.contains(stream.id) || !aggregator_->takes(stream.id)) continue;
    const uint64_t added = aggregator_->added_seq(stream.id);
    if (added >= stream.durable_seq) continue;
    const bool full = aggregator_->open_values() >= max_open_values;
    if (full && !aggregator_->holds_back(stream.id)) continue;
    ASSIGN_OR_RETURN(const auto batches,
                     reader.StreamBatches(stream.id, added, options_.chunk_bytes));
    // The last batches were lost with another store.
    if (batches.empty()) aggregator_->SkipRows(stream.id, stream.durable_seq);
    for (const storage::StoredBatch& stored : batches) {
      RETURN_IF_ERROR(DefineShapes(reader, stream.id, stored.batch));
      aggregator_->AddRows(stream.id, stored.batch);
      *bytes += model::BytesOf(stored.batch);
    }
  }
  return absl::OkStatus();
}

bool LiveRun::AllRead() const {
  return std::all_of(streams_.begin(), streams_.end(), [this](const Stream& stream) {
    return !shapes_.contains(stream.id) || aggregator_->added_seq(stream.id) >= stream.durable_seq;
  });
}

bool LiveRun::AllRanksAttached() const {
  if (run_.settings.strategy == model::LogStrategy::kAll) return true;
  const bool joins = JoinsNodes();
  uint32_t newest = 0;
  for (const Stream& stream : streams_) newest = std::max(newest, stream.attempt);
  std::set<uint32_t> ranks;  // of the node, or of all nodes
  uint32_t expected = 0;
  for (const Stream& stream : streams_) {
    if (stream.attempt < newest || (!joins && !stream.peer.empty())) continue;
    ranks.insert(joins ? stream.key.rank : stream.identity.local_rank);
    expected =
        std::max(expected, joins ? stream.identity.world_size : stream.identity.local_world_size);
  }
  return expected != 0 && ranks.size() >= expected;
}

// The ranks of this daemon have ended, but some of other nodes have not. They are waited for while
// their daemons are heard of.
void LiveRun::FindLostPeers(absl::Time now, RunWrite* write) {
  const bool own_live = std::any_of(streams_.begin(), streams_.end(), [](const Stream& stream) {
    return stream.peer.empty() && IsLive(stream);
  });
  own_ended_since_ = own_live ? absl::InfiniteFuture() : std::min(own_ended_since_, now);
  if (own_live) return;
  for (const Stream& stream : streams_) {
    if (stream.peer.empty()) write->lost_us = std::max(write->lost_us, stream.ended_us);
    if (stream.peer.empty() || !IsLive(stream)) continue;
    absl::Time until = own_ended_since_;
    if (options_.heard != nullptr) {
      until = std::max(until, options_.heard(stream)) + options_.peer_wait;
    }
    if (now >= until) {
      write->lost_peers.push_back(stream.id);
    } else {
      deadline_ = std::min(deadline_, until);
    }
  }
}

// Whether all streams of the run have ended and no other rank is expected.
bool LiveRun::CanBeClosed(absl::Time now) {
  if (streams_.empty() || std::any_of(streams_.begin(), streams_.end(), IsLive)) {
    ended_since_ = absl::InfiniteFuture();
    return false;
  }
  ended_since_ = std::min(ended_since_, now);
  return AllRanksAttached() || now >= CloseTime();
}

// Ranks that never attached are waited for together with those of which nothing is heard any more.
absl::Time LiveRun::CloseTime() const {
  return (JoinsNodes() ? std::min(ended_since_, own_ended_since_) : ended_since_) + CloseWait();
}

// The lowest rank that attached becomes the first of its node, once no other rank is expected.
absl::StatusOr<RunWrite> LiveRun::AwaitPrimary(storage::StoreReader& reader, absl::Time now) {
  ASSIGN_OR_RETURN(streams_, reader.Streams(run_.id));
  RunWrite write;
  if (streams_.empty()) return write;
  uint32_t expected = 0;
  for (const Stream& stream : streams_) {
    expected = std::max(expected, stream.identity.local_world_size);
  }
  waits_since_ = std::min(waits_since_, now);
  const absl::Time until =
      waits_since_ + (expected > 0 ? options_.first_rank_wait : options_.step_wait);
  if (CanBeClosed(now) || now >= until) {
    const Stream& lowest = streams_.front();  // sorted by rank
    write.primary =
        aggregate::RunOfNode(run_.settings, lowest.job_id, lowest.key.rank, lowest.identity);
    write.destinations = run_.settings.destinations;
    if (write.primary->local_only) {
      write.destinations = deliver::DestinationsOfPart(write.destinations);
    }
    deadline_ = absl::InfiniteFuture();
  } else {
    deadline_ = std::min(until, ended_since_ + options_.close_wait);
  }
  return write;
}

absl::StatusOr<RunWrite> LiveRun::Next(storage::StoreReader& reader, absl::Time now,
                                       size_t max_open_values) {
  if (!run_.primary_chosen) {
    ASSIGN_OR_RETURN(run_, reader.GetRun(run_.id));
    if (!run_.primary_chosen) return AwaitPrimary(reader, now);
    aggregator_ = MakeAggregator({});
    streams_.clear();  // some are primary now
  }
  RETURN_IF_ERROR(Refresh(reader));
  const bool closing = CanBeClosed(now);
  if (closing) aggregator_->CloseAll();

  RunWrite write;
  size_t read = 0;
  while (true) {
    const size_t before = read;
    const uint32_t attempt = aggregator_->attempt();
    RETURN_IF_ERROR(ReadChunks(reader, max_open_values, &read));
    aggregate::Aggregated result = aggregator_->Advance(now);
    for (const model::Batch& batch : result.batches) write.bytes += model::BytesOf(batch);
    for (const model::Batch& batch : result.replays) write.bytes += model::BytesOf(batch);
    if (!result.empty()) write.results.push_back(std::move(result));
    if (read == before && aggregator_->attempt() == attempt) break;
    if (read + write.bytes >= options_.round_bytes) {
      write.more = !AllRead();
      break;
    }
  }
  if (closing && !over() && AllRead() && aggregator_->all_streams_ended() &&
      aggregator_->open_values() == 0) {
    write.close = true;
    write.end = EndOf(streams_);
  }
  deadline_ = aggregator_->NextDeadline();
  if (ended_since_ != absl::InfiniteFuture() && !closing) {
    deadline_ = std::min(deadline_, CloseTime());
  }
  FindLostPeers(now, &write);
  return write;
}

}  // namespace ranklog::pipeline
