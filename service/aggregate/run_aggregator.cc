#include "service/aggregate/run_aggregator.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/container/flat_hash_map.h"
#include "service/aggregate/batch_builder.h"
#include "service/aggregate/closing_step.h"
#include "service/aggregate/join_plan.h"
#include "service/aggregate/passed_times.h"
#include "service/aggregate/stream_rows.h"

namespace ranklog::aggregate {
namespace {

// The texts of one row of a block, whose `texts` are sorted by row.
std::unique_ptr<std::vector<model::Text>> TextsOf(const model::Block& block, size_t row) {
  const auto [begin, end] = std::equal_range(
      block.texts.begin(), block.texts.end(), model::Text{static_cast<uint32_t>(row), {}, {}},
      [](const model::Text& a, const model::Text& b) { return a.row < b.row; });
  if (begin == end) return nullptr;
  return std::make_unique<std::vector<model::Text>>(begin, end);
}

}  // namespace

struct RunAggregator::Impl {
  Impl(const model::Run& run, std::vector<std::vector<std::string>> run_shapes, Options options)
      : step_wait(options.step_wait),
        first_row_wait(std::min(options.first_row_wait, options.step_wait)),
        silent_wait(std::min(options.silent_wait, options.step_wait)),
        planner(std::move(options.statistics), std::move(run_shapes)),
        rows(run.rows),
        replays(run.replays),
        made{.last_step = run.last_step,
             .furthest_step = run.furthest_step,
             .attempt = run.attempt,
             .step_base = run.step_base},
        last_step(run.last_step),
        attempt(run.attempt),
        step_base(run.step_base) {}

  StreamRows* Find(int64_t id) const {
    auto found = by_id.find(id);
    return found == by_id.end() ? nullptr : streams[found->second].get();
  }

  void AddRow(StreamRows& stream, const model::Block& block, size_t row, uint64_t seq);
  int64_t StepOf(StreamRows& stream, const model::Block& block, size_t row);
  bool AwaitsFirstRow() const;
  bool BeginNextAttempt();
  void DropOvertaken();
  int64_t PassedByPrimaries() const;
  bool AwaitsAbsentRanks() const;
  int64_t NextPrimaryStep();
  absl::Time WaitsUntil(int64_t step);
  void StopWaitingFor(int64_t step);
  void UseUpOthersBelow(int64_t step, bool every);
  void SettlePassed(int64_t step);
  bool LoggedAnew(const StreamRows& ended, int64_t step) const;
  void ForgetAllPassed();
  void Close(int64_t step);

  const absl::Duration step_wait;
  const absl::Duration first_row_wait;
  const absl::Duration silent_wait;
  JoinPlanner planner;
  BatchBuilder rows;
  BatchBuilder replays;
  // The stored position of the run: last_step, furthest_step, attempt, step_base.
  struct Made {
    int64_t last_step;
    int64_t furthest_step;
    uint32_t attempt;
    int64_t step_base;
  } made;
  std::vector<model::Rewind> rewinds;
  int64_t last_step;  // only rows above it are made: the last row's step, or less after a rewind
  uint32_t attempt;   // the attempt whose rows are taken
  bool begun = true;  // the attempt's first row has come
  int64_t step_base;  // for rows without a step in this attempt; 0: it gives steps
  std::vector<std::unique_ptr<StreamRows>> streams;
  absl::flat_hash_map<int64_t, uint32_t> by_id;
  std::vector<StreamRows*> primaries;  // by id
  std::vector<StreamRows*> others;     // by rank, id
  std::set<uint32_t> ranks;            // ranks that have attached
  uint32_t expected_ranks = 0;         // on the node; 0: unknown
  PassedTimes passed_times;
  absl::Time started = absl::InfiniteFuture();  // when the primaries passed a step with a row
  ClosingStep closing_step;
  absl::Time deadline = absl::InfiniteFuture();
  bool closing = false;  // CloseAll()
};

RunAggregator::RunAggregator(const model::Run& run,
                             std::vector<std::vector<std::string>> run_shapes, Options options)
    : impl_(std::make_unique<Impl>(run, std::move(run_shapes), std::move(options))) {}

RunAggregator::~RunAggregator() = default;

void RunAggregator::AddStream(const model::Stream& stream) {
  impl_->closing = false;
  impl_->ranks.insert(stream.key.rank);
  impl_->expected_ranks = std::max(impl_->expected_ranks, stream.identity.local_world_size);
  StreamRows* rows = impl_->Find(stream.id);
  if (rows == nullptr) {
    const uint32_t index = static_cast<uint32_t>(impl_->streams.size());
    impl_->by_id[stream.id] = index;
    rows = impl_->streams.emplace_back(std::make_unique<StreamRows>()).get();
    rows->id = stream.id;
    rows->index = index;
    rows->rank = stream.key.rank;
    rows->primary = stream.primary;
    rows->silent = stream.durable_seq == 0;
    rows->attempt = stream.attempt;
    rows->began_anew = stream.began_anew || stream.attempt > 1;
    rows->begun_step = stream.begun_step;
    if (stream.aggregated_seq > 0) {
      rows->step_base = stream.step_base;
    } else if (stream.attempt == impl_->attempt) {
      rows->step_base = impl_->step_base;
    }
    rows->added_seq = rows->consumed_seq = rows->reported_seq = stream.aggregated_seq;
    rows->late_rows = rows->reported_late = stream.late_rows;
    rows->replayed_rows = rows->reported_replayed = stream.replayed_rows;
    rows->merged_rows = stream.merged_rows;
    std::vector<StreamRows*>& group = stream.primary ? impl_->primaries : impl_->others;
    const auto before = [](const StreamRows* a, const StreamRows* b) {
      return a->primary || a->rank == b->rank ? a->id < b->id : a->rank < b->rank;
    };
    group.insert(std::upper_bound(group.begin(), group.end(), rows, before), rows);
    if (!stream.primary) impl_->DropOvertaken();
  }
  rows->expected_seq = std::max(rows->expected_seq, stream.durable_seq);
  rows->stream_ended = stream.state != model::StreamState::kLive;
  if (stream.passed_step >= 0) {
    rows->stream_passed_step = std::max(rows->stream_passed_step, stream.passed_step);
  }
}

// If a rank is still live in an earlier attempt, its later process counts from now on.
void RunAggregator::Impl::DropOvertaken() {
  for (StreamRows* stream : others) {
    if (stream->attempt == attempt || stream->stream_ended) continue;
    stream->overtaken |= std::any_of(others.begin(), others.end(), [&](const StreamRows* later) {
      return later->rank == stream->rank && later->attempt > stream->attempt &&
             later->attempt <= attempt;
    });
    for (; stream->overtaken && !stream->rows.empty(); stream->rows.Pop()) {
      const OpenRow& row = stream->rows.front();
      if (!row.dropped) ++stream->replayed_rows;
      stream->UsedUp({row.step, row.seq, /*counts=*/false}, last_step);
    }
  }
}

void RunAggregator::DefineShape(int64_t stream, uint32_t shape,
                                const std::vector<std::string>& keys) {
  StreamRows* const rows = impl_->Find(stream);
  if (rows == nullptr) return;
  if (rows->shapes.size() <= shape) rows->shapes.resize(shape + 1);
  rows->shapes[shape] = keys;
}

// The step of a row in the run. The first row of an attempt determines the offset.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline int64_t RunAggregator::Impl::StepOf(StreamRows& stream,
                                                                        const model::Block& block,
                                                                        size_t row) {
  const bool leads = stream.primary && stream.attempt == attempt;
  if (!begun && leads) {
    begun = true;
    if (!block.counted) step_base = 0;
    for (const auto& each : streams) {
      if (each->attempt == attempt) each->step_base = step_base;
    }
  }
  if (!block.counted) stream.step_base = 0;
  int64_t step = std::min(block.steps[row], kEveryStep - 1);
  if (step < kEveryStep - 1 - stream.step_base) step += stream.step_base;
  if (leads && made.attempt != attempt && step >= 0) last_step = std::min(last_step, step - 1);
  return step;
}

// Inline, because it runs for every row of every rank.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void RunAggregator::Impl::AddRow(StreamRows& stream,
                                                                     const model::Block& block,
                                                                     size_t row, uint64_t seq) {
  const size_t width = block.width();
  const size_t known = block.shape < stream.shapes.size() ? stream.shapes[block.shape].size() : 0;
  const int64_t step = StepOf(stream, block, row);
  const bool used = stream.primary || planner.joins();
  const bool over = stream.primary && stream.attempt < attempt;
  const bool behind = step <= last_step || over;
  const bool late = used && (behind || step < stream.added_step || known != width);
  OpenRow open;
  open.seq = seq;
  open.step = std::max(step, stream.added_step);
  open.time_us = block.times_us[row];
  open.shape = block.shape;
  open.counted = block.counted;
  if (stream.primary && !late) open.texts = TextsOf(block, row);
  // A row without metrics only marks its step as reached.
  open.dropped = late || !used || stream.overtaken || (width == 0 && open.texts == nullptr);
  open.rows = stream.primary && !late ? 1 : 0;
  const bool anew = stream.began_anew && !stream.primary && step <= stream.begun_step;
  if ((late && behind && anew) || (used && stream.overtaken)) {
    ++stream.replayed_rows;
  } else if (late) {
    ++stream.late_rows;
  } else {
    stream.silent = false;
  }
  stream.added_seq = seq;
  stream.added_step = open.step;
  const int64_t passed = block.commits ? open.step : open.step - 1;
  stream.passed_step = std::max(stream.passed_step, passed);
  if (open.dropped && stream.rows.empty()) {
    stream.merged_rows += static_cast<int64_t>(open.rows);
    stream.UsedUp({open.step, seq, /*counts=*/false}, last_step);
    return;
  }
  open.width = open.dropped ? 0 : static_cast<uint32_t>(width);
  stream.rows.Push(std::move(open), block.values.data() + row * width);
}

void RunAggregator::AddRows(int64_t stream, const model::Batch& batch) {
  StreamRows* const rows = impl_->Find(stream);
  if (rows == nullptr || batch.last <= rows->added_seq) return;
  model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t seq) {
    if (seq > rows->added_seq) impl_->AddRow(*rows, block, row, seq);
  });
}

void RunAggregator::SkipRows(int64_t stream, uint64_t through) {
  StreamRows* const rows = impl_->Find(stream);
  if (rows == nullptr || through <= rows->added_seq) return;
  rows->added_seq = through;
  if (rows->rows.empty()) {
    rows->UsedUp({rows->added_step, through, /*counts=*/false}, impl_->last_step);
    return;
  }
  OpenRow none;  // consumed together with the row before it
  none.seq = through;
  none.step = rows->added_step;
  none.dropped = true;
  rows->rows.Push(std::move(none), nullptr);
}

void RunAggregator::CloseAll() { impl_->closing = true; }

int64_t RunAggregator::Impl::PassedByPrimaries() const {
  int64_t passed = kEveryStep;
  bool any = false;
  for (const StreamRows* stream : primaries) {
    if (stream->attempt != attempt) continue;
    any = true;
    passed = std::min(passed, stream->passed());
  }
  return any || closing ? passed : kNoStep;
}

// True if the attempt has a primary without a row so far, which may still rewind the run.
bool RunAggregator::Impl::AwaitsFirstRow() const {
  return !begun && std::any_of(primaries.begin(), primaries.end(), [&](const auto* stream) {
    return stream->attempt == attempt && !stream->ended();
  });
}

// Begins the next attempt once this attempt's primary streams have ended and their rows are made,
// so that no step is open.
bool RunAggregator::Impl::BeginNextAttempt() {
  uint32_t next = 0;
  for (const auto& stream : streams) {
    if (stream->primary && stream->attempt == attempt && !stream->ended()) return false;
    const bool begins = stream->attempt > attempt && (stream->primary || closing);
    if (begins && (next == 0 || stream->attempt < next)) next = stream->attempt;
  }
  if (next == 0) return false;
  attempt = next;
  begun = false;
  last_step = made.last_step;
  step_base = made.last_step + 1;
  // Its ranks are waited for like those of the first attempt.
  ranks.clear();
  for (const auto& stream : streams) {
    if (!stream->stream_ended || stream->attempt >= attempt) ranks.insert(stream->rank);
  }
  started = absl::InfiniteFuture();
  DropOvertaken();
  return true;
}

// The smallest step at which a primary has an open row; kEveryStep if there is none.
int64_t RunAggregator::Impl::NextPrimaryStep() {
  int64_t next = kEveryStep;
  for (StreamRows* stream : primaries) {
    while (!stream->rows.empty() && stream->rows.front().dropped) stream->Pop(last_step);
    if (!stream->rows.empty()) next = std::min(next, stream->rows.front().step);
  }
  return next;
}

bool RunAggregator::Impl::AwaitsAbsentRanks() const {
  return planner.joins() && !closing && ranks.size() < expected_ranks;
}

// Until when `step`, which the primaries have passed, waits for the others. Infinite past if all
// have passed it.
absl::Time RunAggregator::Impl::WaitsUntil(int64_t step) {
  absl::Time until = absl::InfinitePast();
  if (AwaitsAbsentRanks()) until = started + first_row_wait;
  if (!planner.joins()) return until;
  const absl::Time since = passed_times.Since(step);
  for (const StreamRows* stream : others) {
    if (stream->attempt > attempt || stream->passed() >= step) continue;
    until = std::max(until, stream->is_silent()
                                ? std::max(std::max(started, stream->joined) + first_row_wait,
                                           since + silent_wait)
                                : since + step_wait);
  }
  return until;
}

// Stops waiting for streams that have not passed `step`.
void RunAggregator::Impl::StopWaitingFor(int64_t step) {
  for (StreamRows* stream : others) {
    stream->silent |= stream->attempt <= attempt && stream->passed() < step;
  }
}

void RunAggregator::Impl::UseUpOthersBelow(int64_t step, bool every) {
  for (StreamRows* stream : others) {
    while (!stream->rows.empty() && (every || stream->rows.front().step < step)) {
      stream->Pop(last_step);
    }
  }
}

// The row of `step` is made. Rows consumed for it earlier had no part in it, so they are late,
// unless a later process of the rank has logged the step again.
void RunAggregator::Impl::SettlePassed(int64_t step) {
  for (StreamRows* stream : others) {
    while (!stream->passed_rows.empty() && stream->passed_rows.front().step <= step) {
      const PassedRow& row = stream->passed_rows.front();
      if (row.counts && row.step == step && !LoggedAnew(*stream, step)) ++stream->late_rows;
      stream->ForgetPassed();
    }
  }
}

bool RunAggregator::Impl::LoggedAnew(const StreamRows& ended, int64_t step) const {
  return ended.ended() && std::any_of(others.begin(), others.end(), [&](const StreamRows* other) {
           return other->rank == ended.rank && other->id > ended.id && !other->rows.empty() &&
                  other->rows.front().step == step;
         });
}

// No stream is left that could bring the steps of consumed rows.
void RunAggregator::Impl::ForgetAllPassed() {
  for (StreamRows* stream : others) {
    while (!stream->passed_rows.empty()) stream->ForgetPassed();
  }
}

Aggregated RunAggregator::Advance(absl::Time now) {
  Impl& impl = *impl_;
  const int64_t passed = impl.PassedByPrimaries();
  impl.passed_times.Passed(passed, now);
  for (StreamRows* stream : impl.others) stream->joined = std::min(stream->joined, now);
  impl.deadline = absl::InfiniteFuture();
  bool begins = false;  // the next attempt begins
  while (true) {
    const int64_t next = impl.NextPrimaryStep();
    const bool open = next <= passed && next != kEveryStep;
    // The other streams' rows after this attempt belong to the next one.
    begins = !open && impl.BeginNextAttempt();
    if (begins) break;
    // No live primary will have another row below `next`, and none up to `passed` besides those
    // that it has.
    impl.UseUpOthersBelow(open || passed == kEveryStep ? next : std::min(next, passed + 1),
                          /*every=*/!open && passed == kEveryStep);
    // Most steps close without a wait, and then the time is not needed.
    impl.passed_times.Forget(next);
    if (!open) break;
    impl.started = std::min(impl.started, now);
    const absl::Time until = impl.WaitsUntil(next);
    if (now < until) {
      impl.deadline = until;
      break;
    }
    if (until != absl::InfinitePast()) impl.StopWaitingFor(next);
    impl.Close(next);
  }
  const bool all_ended = std::all_of(impl.streams.begin(), impl.streams.end(),
                                     [](const auto& stream) { return stream->ended(); });
  if (!begins && (impl.closing || all_ended)) impl.ForgetAllPassed();

  Aggregated result;
  result.shapes = impl.planner.TakeNewShapes();
  result.batches = impl.rows.Take();
  result.replays = impl.replays.Take();
  result.rewinds = std::exchange(impl.rewinds, {});
  result.last_step = impl.made.last_step;
  result.furthest_step = impl.made.furthest_step;
  result.attempt = impl.made.attempt;
  result.step_base = impl.made.step_base;
  for (const auto& stream : impl.streams) {
    if (stream->consumed_seq == stream->reported_seq &&
        stream->late_rows == stream->reported_late &&
        stream->replayed_rows == stream->reported_replayed) {
      continue;
    }
    const uint64_t new_late_rows = stream->late_rows - stream->reported_late;
    stream->reported_seq = stream->consumed_seq;
    stream->reported_late = stream->late_rows;
    stream->reported_replayed = stream->replayed_rows;
    result.consumed.push_back({stream->id, stream->consumed_seq, stream->late_rows, new_late_rows,
                               stream->replayed_rows, stream->merged_rows, stream->step_base});
  }
  return result;
}

void RunAggregator::Impl::Close(int64_t step) {
  const bool is_replay = step <= made.furthest_step;
  if (step <= made.last_step) rewinds.push_back({step, rows.next_index(), replays.next_index()});
  closing_step.Close(step, primaries, others, planner, is_replay ? replays : rows);
  last_step = step;
  made = {step, std::max(step, made.furthest_step), attempt, step_base};
  SettlePassed(step);
  // The stream for which the row counts. The rows of the others are merged into it.
  StreamRows* whose = nullptr;
  for (StreamRows* stream : primaries) {
    while (!stream->rows.empty() && stream->rows.front().step <= step) {
      if (!stream->rows.front().dropped) whose = stream;
      stream->Pop(step);
    }
  }
  --whose->merged_rows;
  if (is_replay) ++whose->replayed_rows;
  for (StreamRows* stream : others) {
    while (!stream->rows.empty() && stream->rows.front().step <= step) stream->Pop(step);
  }
}

absl::Time RunAggregator::NextDeadline() const { return impl_->deadline; }

size_t RunAggregator::open_values() const {
  size_t cost = 0;
  for (const auto& stream : impl_->streams) cost += stream->rows.cost();
  return cost;
}

bool RunAggregator::all_streams_ended() const {
  for (const auto& stream : impl_->streams) {
    if (!stream->ended() || stream->consumed_seq != stream->reported_seq) return false;
    if (!stream->rows.empty() && !impl_->primaries.empty()) return false;
  }
  return true;
}

uint64_t RunAggregator::added_seq(int64_t stream) const {
  const StreamRows* const rows = impl_->Find(stream);
  return rows == nullptr ? 0 : rows->added_seq;
}

uint32_t RunAggregator::attempt() const { return impl_->attempt; }

bool RunAggregator::takes(int64_t stream) const {
  const StreamRows* const rows = impl_->Find(stream);
  if (rows == nullptr || rows->attempt < impl_->attempt) return true;
  return rows->attempt == impl_->attempt && (rows->primary || !impl_->AwaitsFirstRow());
}

bool RunAggregator::holds_back(int64_t stream) const {
  const StreamRows* const rows = impl_->Find(stream);
  if (rows == nullptr) return false;
  int64_t furthest_behind = impl_->PassedByPrimaries();
  if (impl_->planner.joins()) {
    // A silent or absent rank holds back all others while it is waited for, and only then.
    const bool waits = impl_->deadline != absl::InfiniteFuture();
    if (waits && impl_->AwaitsAbsentRanks()) furthest_behind = kNoStep;
    for (const StreamRows* other : impl_->others) {
      if (other->attempt > impl_->attempt || (!waits && other->is_silent())) continue;
      furthest_behind = std::min(furthest_behind, other->passed());
    }
  }
  return rows->passed() <= furthest_behind;
}

}  // namespace ranklog::aggregate
