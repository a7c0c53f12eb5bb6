#include "service/aggregate/run_streams.h"

#include <algorithm>

namespace ranklog::aggregate {

void RunStreams::Add(const model::Stream& stream, int64_t step_base) {
  const uint32_t index = static_cast<uint32_t>(streams_.size());
  by_id_[stream.id] = index;
  StreamRows* const rows = streams_.emplace_back(std::make_unique<StreamRows>()).get();
  rows->id = stream.id;
  rows->index = index;
  rows->rank = stream.key.rank;
  rows->incarnation = stream.key.incarnation;
  rows->primary = stream.primary;
  rows->silent = stream.durable_seq == 0;
  rows->attempt = stream.attempt;
  rows->began_anew = stream.began_anew || stream.attempt > 1;
  rows->begun_step = stream.begun_step;
  rows->step_base = stream.aggregated_seq > 0 ? stream.step_base : step_base;
  rows->added_seq = rows->consumed_seq = rows->reported_seq = stream.aggregated_seq;
  rows->late_rows = rows->reported_late = stream.late_rows;
  rows->replayed_rows = rows->reported_replayed = stream.replayed_rows;
  rows->merged_rows = stream.merged_rows;
  std::vector<StreamRows*>& group = stream.primary ? primaries_ : others_;
  const auto before = [](const StreamRows* a, const StreamRows* b) {
    return a->primary || a->rank == b->rank ? a->id < b->id : a->rank < b->rank;
  };
  group.insert(std::upper_bound(group.begin(), group.end(), rows, before), rows);
}

void RunStreams::Update(const model::Stream& stream) {
  ranks_.insert(stream.key.rank);
  expected_ranks_ = std::max(expected_ranks_, stream.identity.local_world_size);
  joins_nodes_ |= !stream.peer.empty();
  // A job may start again with another world size.
  if (stream.attempt > newest_attempt_) world_size_ = 0;
  newest_attempt_ = std::max(newest_attempt_, stream.attempt);
  if (stream.attempt == newest_attempt_) {
    world_size_ = std::max(world_size_, stream.identity.world_size);
  }
  StreamRows& rows = *Find(stream.id);
  rows.expected_seq = std::max(rows.expected_seq, stream.durable_seq);
  rows.stream_ended = stream.state != model::StreamState::kLive;
  if (stream.passed_step >= 0) {
    rows.stream_passed_step = std::max(rows.stream_passed_step, stream.passed_step);
  }
}

StreamRows* RunStreams::Find(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : streams_[found->second].get();
}

void RunStreams::BeginAttempt(uint32_t attempt, int64_t last_step) {
  ranks_.clear();
  for (const auto& stream : streams_) {
    if (!stream->stream_ended || stream->attempt >= attempt) ranks_.insert(stream->rank);
  }
  DropReplaced(attempt, last_step);
}

void RunStreams::DropReplaced(uint32_t attempt, int64_t last_step) {
  for (StreamRows* stream : others_) {
    if (stream->attempt == attempt || stream->stream_ended) continue;
    stream->overtaken |= std::any_of(others_.begin(), others_.end(), [&](const StreamRows* later) {
      return later->rank == stream->rank && later->attempt > stream->attempt &&
             later->attempt <= attempt;
    });
    for (; stream->overtaken && !stream->rows.empty(); stream->rows.Pop()) {
      const OpenRow& row = stream->rows.front();
      if (!row.dropped) ++stream->replayed_rows;
      stream->Consume({row.step, row.seq, /*counts=*/false}, last_step);
    }
  }
}

int64_t RunStreams::NextPrimaryStep(int64_t last_step) {
  int64_t next = kEveryStep;
  for (StreamRows* stream : primaries_) {
    while (!stream->rows.empty() && stream->rows.front().dropped) stream->Pop(last_step);
    if (!stream->rows.empty()) next = std::min(next, stream->rows.front().step);
  }
  return next;
}

void RunStreams::ConsumeOthersBelow(int64_t step, bool every, int64_t last_step) {
  for (StreamRows* stream : others_) {
    while (!stream->rows.empty() && (every || stream->rows.front().step < step)) {
      stream->Pop(last_step);
    }
  }
}

void RunStreams::SettlePassed(int64_t step) {
  for (StreamRows* stream : others_) {
    while (!stream->passed_rows.empty() && stream->passed_rows.front().step <= step) {
      const PassedRow& row = stream->passed_rows.front();
      if (row.counts && row.step == step && !LoggedAgain(*stream, step)) ++stream->late_rows;
      stream->ForgetPassed();
    }
  }
}

bool RunStreams::LoggedAgain(const StreamRows& ended, int64_t step) const {
  return ended.ended() && std::any_of(others_.begin(), others_.end(), [&](const auto* other) {
           return other->rank == ended.rank && other->id > ended.id && !other->rows.empty() &&
                  other->rows.front().step == step;
         });
}

void RunStreams::ForgetAllPassed() {
  for (StreamRows* stream : others_) {
    while (!stream->passed_rows.empty()) stream->ForgetPassed();
  }
}

std::vector<Aggregated::Consumed> RunStreams::TakeConsumed() {
  std::vector<Aggregated::Consumed> consumed;
  for (const auto& stream : streams_) {
    if (stream->consumed_seq == stream->reported_seq &&
        stream->late_rows == stream->reported_late &&
        stream->replayed_rows == stream->reported_replayed) {
      continue;
    }
    const uint64_t new_late_rows = stream->late_rows - stream->reported_late;
    stream->reported_seq = stream->consumed_seq;
    stream->reported_late = stream->late_rows;
    stream->reported_replayed = stream->replayed_rows;
    consumed.push_back({stream->id, stream->consumed_seq, stream->late_rows, new_late_rows,
                        stream->replayed_rows, stream->merged_rows, stream->step_base});
  }
  return consumed;
}

size_t RunStreams::open_values() const {
  size_t cost = 0;
  for (const auto& stream : streams_) cost += stream->rows.cost();
  return cost;
}

}  // namespace ranklog::aggregate
