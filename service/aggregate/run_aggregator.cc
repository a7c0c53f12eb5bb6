#include "service/aggregate/run_aggregator.h"

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "service/aggregate/join/batch_builder.h"
#include "service/aggregate/join/closing_step.h"
#include "service/aggregate/join/join_plan.h"
#include "service/aggregate/join/step_wait.h"
#include "service/aggregate/join/stream_rows.h"
#include "service/aggregate/run_streams.h"

namespace ranklog::aggregate {
namespace {

// A copy of the texts of a row; null if there are none.
std::unique_ptr<std::vector<model::Text>> CopyTexts(const model::Block& block, size_t row) {
  const absl::Span<const model::Text> texts = model::TextsOf(block, row);
  if (texts.empty()) return nullptr;
  return std::make_unique<std::vector<model::Text>>(texts.begin(), texts.end());
}

}  // namespace

struct RunAggregator::Impl {
  Impl(const model::Run& run, std::vector<std::vector<std::string>> run_shapes, Options options)
      : step_wait({.step = options.step_wait,
                   .first_row = options.first_row_wait,
                   .silent = options.silent_wait}),
        planner(std::move(options.statistics), std::move(run_shapes)),
        rows(run.rows),
        replays(run.replays),
        made{.last_step = run.last_step,
             .furthest_step = run.furthest_step,
             .attempt = run.attempt,
             .step_base = run.step_base},
        last_step(run.last_step),
        attempt(run.attempt),
        step_base(run.step_base),
        streams(options.joins_nodes) {}

  void AddRow(StreamRows& stream, const model::Block& block, size_t row, uint64_t seq);
  int64_t StepOf(StreamRows& stream, const model::Block& block, size_t row);
  bool AwaitsFirstRow() const;
  bool BeginNextAttempt();
  int64_t PassedByPrimaries() const;
  bool AwaitsAbsentRanks() const;
  void Close(int64_t step);

  StepWait step_wait;
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
  RunStreams streams;
  ClosingStep closing_step;
  absl::Time deadline = absl::InfiniteFuture();
  bool closing = false;  // CloseAll()
};

RunAggregator::RunAggregator(const model::Run& run,
                             std::vector<std::vector<std::string>> run_shapes, Options options)
    : impl_(std::make_unique<Impl>(run, std::move(run_shapes), std::move(options))) {}

RunAggregator::~RunAggregator() = default;

void RunAggregator::AddStream(const model::Stream& stream) {
  Impl& impl = *impl_;
  impl.closing = false;
  if (impl.streams.Find(stream.id) == nullptr) {
    impl.streams.Add(stream, stream.attempt == impl.attempt ? impl.step_base : 0);
    if (!stream.primary) impl.streams.DropReplaced(impl.attempt, impl.last_step);
  }
  impl.streams.Update(stream);
}

void RunAggregator::DefineShape(int64_t stream, uint32_t shape,
                                const std::vector<std::string>& keys) {
  StreamRows* const rows = impl_->streams.Find(stream);
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
    for (const auto& each : streams.all()) {
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
  open.keeps_step = step == block.steps[row];
  if (stream.primary && !late) open.texts = CopyTexts(block, row);
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
    stream.Consume({open.step, seq, /*counts=*/false}, last_step);
    return;
  }
  open.width = open.dropped ? 0 : static_cast<uint32_t>(width);
  stream.rows.Push(std::move(open), block.values.data() + row * width);
}

void RunAggregator::AddRows(int64_t stream, const model::Batch& batch) {
  StreamRows* const rows = impl_->streams.Find(stream);
  if (rows == nullptr || batch.last <= rows->added_seq) return;
  model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t seq) {
    if (seq > rows->added_seq) impl_->AddRow(*rows, block, row, seq);
  });
}

void RunAggregator::SkipRows(int64_t stream, uint64_t through) {
  StreamRows* const rows = impl_->streams.Find(stream);
  if (rows == nullptr || through <= rows->added_seq) return;
  rows->added_seq = through;
  if (rows->rows.empty()) {
    rows->Consume({rows->added_step, through, /*counts=*/false}, impl_->last_step);
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
  for (const StreamRows* stream : streams.primaries()) {
    if (stream->attempt != attempt) continue;
    any = true;
    passed = std::min(passed, stream->passed());
  }
  return any || closing ? passed : kNoStep;
}

// True if the attempt has a primary without a row so far, which may still rewind the run.
bool RunAggregator::Impl::AwaitsFirstRow() const {
  return !begun && std::any_of(streams.primaries().begin(), streams.primaries().end(),
                               [&](const auto* stream) {
                                 return stream->attempt == attempt && !stream->ended();
                               });
}

// Begins the next attempt once this attempt's primary streams have ended and their rows are made,
// so that no step is open.
bool RunAggregator::Impl::BeginNextAttempt() {
  uint32_t next = 0;
  for (const auto& stream : streams.all()) {
    if (stream->primary && stream->attempt == attempt && !stream->ended()) return false;
    const bool begins = stream->attempt > attempt && (stream->primary || closing);
    if (begins && (next == 0 || stream->attempt < next)) next = stream->attempt;
  }
  if (next == 0) return false;
  attempt = next;
  begun = false;
  last_step = made.last_step;
  step_base = made.last_step + 1;
  streams.BeginAttempt(attempt, last_step);
  step_wait.BeginAttempt();
  return true;
}

bool RunAggregator::Impl::AwaitsAbsentRanks() const { return !closing && streams.HasAbsentRanks(); }

Aggregated RunAggregator::Advance(absl::Time now) {
  Impl& impl = *impl_;
  const int64_t passed = impl.PassedByPrimaries();
  impl.step_wait.Passed(passed, now);
  for (StreamRows* stream : impl.streams.others()) stream->joined = std::min(stream->joined, now);
  impl.deadline = absl::InfiniteFuture();
  bool begins = false;  // the next attempt begins
  while (true) {
    const int64_t next = impl.streams.NextPrimaryStep(impl.last_step);
    const bool open = next <= passed && next != kEveryStep;
    // The other streams' rows after this attempt belong to the next one.
    begins = !open && impl.BeginNextAttempt();
    if (begins) break;
    // No live primary will have another row below `next`, and none up to `passed` besides those
    // that it has.
    const int64_t below = open || passed == kEveryStep ? next : std::min(next, passed + 1);
    impl.streams.ConsumeOthersBelow(below, /*every=*/!open && passed == kEveryStep, impl.last_step);
    // Most steps close without a wait, and then the time is not needed.
    impl.step_wait.Forget(next);
    if (!open) break;
    absl::Time until = absl::InfinitePast();
    if (impl.planner.joins()) {
      until = impl.step_wait.Until(next, impl.attempt, impl.streams.others(),
                                   impl.AwaitsAbsentRanks(), now);
    }
    if (now < until) {
      impl.deadline = until;
      break;
    }
    if (until != absl::InfinitePast()) {
      StepWait::GiveUp(next, impl.attempt, impl.streams.others());
    }
    impl.Close(next);
  }
  const bool all_ended = std::all_of(impl.streams.all().begin(), impl.streams.all().end(),
                                     [](const auto& stream) { return stream->ended(); });
  if (!begins && (impl.closing || all_ended)) impl.streams.ForgetAllPassed();

  Aggregated result;
  result.shapes = impl.planner.TakeNewShapes();
  result.batches = impl.rows.Take();
  result.replays = impl.replays.Take();
  result.rewinds = std::exchange(impl.rewinds, {});
  result.last_step = impl.made.last_step;
  result.furthest_step = impl.made.furthest_step;
  result.attempt = impl.made.attempt;
  result.step_base = impl.made.step_base;
  result.consumed = impl.streams.TakeConsumed();
  return result;
}

void RunAggregator::Impl::Close(int64_t step) {
  const bool is_replay = step <= made.furthest_step;
  if (step <= made.last_step) rewinds.push_back({step, rows.next_index(), replays.next_index()});
  planner.SetWorldSize(streams.joined_world_size());
  closing_step.Close(step, streams.primaries(), streams.others(), planner,
                     is_replay ? replays : rows);
  last_step = step;
  made = {step, std::max(step, made.furthest_step), attempt, step_base};
  streams.SettlePassed(step);
  // The stream for which the row counts. The rows of the others are merged into it.
  StreamRows* whose = nullptr;
  for (StreamRows* stream : streams.primaries()) {
    while (!stream->rows.empty() && stream->rows.front().step <= step) {
      if (!stream->rows.front().dropped) whose = stream;
      stream->Pop(step);
    }
  }
  --whose->merged_rows;
  if (is_replay) ++whose->replayed_rows;
  for (StreamRows* stream : streams.others()) {
    while (!stream->rows.empty() && stream->rows.front().step <= step) stream->Pop(step);
  }
}

absl::Time RunAggregator::NextDeadline() const { return impl_->deadline; }

size_t RunAggregator::open_values() const { return impl_->streams.open_values(); }

bool RunAggregator::all_streams_ended() const {
  for (const auto& stream : impl_->streams.all()) {
    if (!stream->ended() || stream->consumed_seq != stream->reported_seq) return false;
    if (!stream->rows.empty() && !impl_->streams.primaries().empty()) return false;
  }
  return true;
}

uint64_t RunAggregator::added_seq(int64_t stream) const {
  const StreamRows* const rows = impl_->streams.Find(stream);
  return rows == nullptr ? 0 : rows->added_seq;
}

uint32_t RunAggregator::attempt() const { return impl_->attempt; }

bool RunAggregator::takes(int64_t stream) const {
  const StreamRows* const rows = impl_->streams.Find(stream);
  if (rows == nullptr || rows->attempt < impl_->attempt) return true;
  return rows->attempt == impl_->attempt && (rows->primary || !impl_->AwaitsFirstRow());
}

bool RunAggregator::holds_back(int64_t stream) const {
  const StreamRows* const rows = impl_->streams.Find(stream);
  if (rows == nullptr) return false;
  int64_t furthest_behind = impl_->PassedByPrimaries();
  if (impl_->planner.joins()) {
    // A silent or absent rank delays all others, but only while the step waits for it.
    const bool waits = impl_->deadline != absl::InfiniteFuture();
    if (waits && impl_->AwaitsAbsentRanks()) furthest_behind = kNoStep;
    for (const StreamRows* other : impl_->streams.others()) {
      if (other->attempt > impl_->attempt || (!waits && other->is_silent())) continue;
      furthest_behind = std::min(furthest_behind, other->passed());
    }
  }
  return rows->passed() <= furthest_behind;
}

}  // namespace ranklog::aggregate
