#include "service/pipeline/aggregate_loop.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "service/base/fault_point.h"
#include "service/pipeline/run_name.h"

namespace ranklog::pipeline {

AggregateLoop::AggregateLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader,
                             std::function<absl::Time()> steady_clock,
                             std::function<void(int64_t)> on_rows, Options options)
    : store_(store),
      reader_(std::move(reader)),
      steady_clock_(std::move(steady_clock)),
      on_rows_(std::move(on_rows)),
      options_(options),
      inbox_(std::make_shared<Inbox>()) {}

AggregateLoop::~AggregateLoop() { Stop(); }

void AggregateLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void AggregateLoop::Notify(int64_t run) {
  absl::MutexLock lock(&inbox_->mutex);
  inbox_->runs.insert(run);
  inbox_->changed.Wake();
}

void AggregateLoop::Stop() {
  {
    absl::MutexLock lock(&inbox_->mutex);
    inbox_->stopping = true;
    inbox_->changed.Wake();
  }
  if (thread_.joinable()) thread_.join();
}

AggregateLoop::Counters AggregateLoop::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

void AggregateLoop::Run() {
  const Pulse::Loop loop(&pulse_);
  // Lower priority than the threads that make rows durable. This thread may lag, because the store
  // is its queue.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);
  Inbox* const inbox = inbox_.get();
  const auto must_go_on = [inbox]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(inbox->mutex) {
    return inbox->stopping || inbox->at_once;
  };
  const auto has_something = [inbox]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(inbox->mutex) {
    return inbox->stopping || inbox->at_once || !inbox->runs.empty() || !inbox->answers.empty();
  };
  while (true) {
    const absl::Duration wait = Step();
    absl::MutexLock lock(&inbox_->mutex);
    const Pulse::Rest rest;
    // First waits a short time so that notifications gather, then until the first one arrives.
    const absl::Duration pause = std::min(wait, options_.interval);
    if (!inbox_->changed.Await(&inbox_->mutex, pause, must_go_on)) {
      inbox_->changed.Await(&inbox_->mutex, wait - pause, has_something);
    }
    if (inbox_->stopping) return;
  }
}

absl::Duration AggregateLoop::Step() {
  if (!taken_up_) TakeUp();
  TakeMessages();
  const absl::Time now = steady_clock_();
  absl::Time next = taken_up_ ? absl::InfiniteFuture() : now + options_.retry_interval;
  std::vector<int64_t> over;
  for (auto& [run, entry] : runs_) {
    const absl::Time deadline = entry.live ? entry.live->NextDeadline() : absl::InfiniteFuture();
    if (!entry.writing && now >= entry.retry_at && written_bytes_ < options_.max_written_bytes &&
        (entry.due || now >= deadline)) {
      StepRun(run, entry, now);
      if (entry.live && entry.live->over()) over.push_back(run);
    }
    // A run with a submitted write continues after the answer.
    if (entry.writing) continue;
    if (entry.due) next = std::min(next, std::max(entry.retry_at, now));
    if (entry.live) next = std::min(next, entry.live->NextDeadline());
  }
  for (int64_t run : over) runs_.erase(run);
  const size_t open_values = OpenValues();
  absl::MutexLock lock(&mutex_);
  counters_.live_runs = runs_.size();
  counters_.open_values = open_values;
  // Runs that were held back by `max_written_bytes` wait for an answer.
  return std::max(next - now, written_bytes_ > 0 ? options_.interval : absl::ZeroDuration());
}

void AggregateLoop::TakeUp() {
  const absl::StatusOr<std::vector<model::Stream>> streams = reader_->LiveStreams();
  if (!streams.ok()) {
    spdlog::error("aggregate: cannot list the running runs: {}",
                  std::string(streams.status().message()));
    return;
  }
  for (const model::Stream& stream : *streams) runs_[stream.run].due = true;
  taken_up_ = true;
}

void AggregateLoop::TakeMessages() {
  std::set<int64_t> notified;
  std::map<int64_t, std::shared_ptr<Written>> answers;
  {
    absl::MutexLock lock(&inbox_->mutex);
    notified.swap(inbox_->runs);
    answers.swap(inbox_->answers);
    inbox_->at_once = false;
  }
  for (const auto& [run, written] : answers) TakeAnswer(run, *written);
  for (int64_t run : notified) runs_[run].due = true;
}

void AggregateLoop::TakeAnswer(int64_t run, const Written& written) {
  Entry& entry = runs_[run];
  entry.writing = false;
  written_bytes_ -= written.write.bytes;
  if (!written.status.ok()) {
    Failed(run, entry, written.status);
    return;
  }
  uint64_t rows = 0;
  uint64_t late = 0;
  for (const aggregate::Aggregated& result : written.write.results) {
    for (const model::Batch& batch : result.batches) rows += batch.rows();
    for (const aggregate::Aggregated::Consumed& stream : result.consumed) {
      late += stream.new_late_rows;
    }
  }
  // If the close was refused, a stream has joined.
  entry.due |= written.write.more || written.write.primary.has_value() ||
               !written.write.lost_peers.empty() || (written.write.close && !written.closed);
  if (written.closed && !entry.due) runs_.erase(run);
  absl::MutexLock lock(&mutex_);
  counters_.stopped.erase(run);
  counters_.made_rows += rows;
  counters_.late_rows += late;
}

void AggregateLoop::StepRun(int64_t run, Entry& entry, absl::Time now) {
  Pulse::Beat();
  FaultPoint("aggregate");
  entry.due = false;
  if (entry.live == nullptr) {
    absl::StatusOr<std::unique_ptr<LiveRun>> live = LiveRun::Open(*reader_, run, options_.run);
    if (!live.ok()) return Failed(run, entry, live.status());
    entry.live = *std::move(live);
  }
  absl::StatusOr<RunWrite> write =
      entry.live->Next(*reader_, now, options_.max_open_values / runs_.size());
  if (!write.ok()) return Failed(run, entry, write.status());
  if (write->empty()) {
    entry.due = write->more;
    absl::MutexLock lock(&mutex_);
    counters_.stopped.erase(run);
    return;
  }
  entry.writing = true;
  Submit(run, *std::move(write));
}

void AggregateLoop::Submit(int64_t run, RunWrite write) {
  auto written = std::make_shared<Written>();
  written->write = std::move(write);
  const size_t bytes = written->write.bytes;
  const bool urgent = written->write.close || written->write.more || written->write.primary;
  written_bytes_ += bytes;
  store_->Submit({.apply =
                      [written, run](storage::Store& store) {
                        return written->write.Apply(store, run, &written->closed);
                      },
                  .done =
                      [written, run, inbox = inbox_, on_rows = on_rows_,
                       on_primary_chosen = options_.on_primary_chosen,
                       on_bad_end = options_.on_bad_end](absl::Status status) {
                        written->status = status;
                        const bool chosen = status.ok() && written->write.primary.has_value();
                        const bool at_once = chosen || (status.ok() && written->write.more);
                        {
                          absl::MutexLock lock(&inbox->mutex);
                          inbox->answers[run] = written;
                          inbox->at_once |= at_once;
                          inbox->changed.Wake();
                        }
                        if (chosen && on_primary_chosen) on_primary_chosen(run);
                        if (status.ok() && on_rows) on_rows(run);
                        const bool well = written->write.end.state == model::RunState::kFinished;
                        if (status.ok() && written->closed && !well && on_bad_end) on_bad_end(run);
                      },
                  .bytes = bytes,
                  .urgent = urgent});
}

void AggregateLoop::Failed(int64_t run, Entry& entry, const absl::Status& status) {
  const std::string error(status.message());
  // Retried each second; logged once.
  if (std::exchange(entry.last_error, error) != error) {
    spdlog::error("aggregate: run {}: {}", RunName(*reader_, run), error);
  }
  entry.live = nullptr;
  entry.due = !absl::IsNotFound(status);
  entry.retry_at = steady_clock_() + options_.retry_interval;
  absl::MutexLock lock(&mutex_);
  ++counters_.errors;
  if (entry.due) {
    counters_.stopped[run] = error;
  } else {
    counters_.stopped.erase(run);  // the run was removed
  }
}

size_t AggregateLoop::OpenValues() const {
  size_t values = 0;
  for (const auto& [run, entry] : runs_) {
    if (entry.live) values += entry.live->open_values();
  }
  return values;
}

}  // namespace ranklog::pipeline
