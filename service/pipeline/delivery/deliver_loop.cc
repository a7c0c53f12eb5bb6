#include "service/pipeline/delivery/deliver_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "service/pipeline/delivery/silence_results.h"
#include "service/pipeline/run_name.h"

namespace ranklog::pipeline {
namespace {

// Not the id of a run; stands for all deliveries pending at the start.
constexpr int64_t kAllPending = 0;

}  // namespace

DeliverLoop::DeliverLoop(StoreLoop* store, std::vector<Worker> workers, Options options)
    : store_(store),
      workers_(std::move(workers)),
      options_(options),
      tasks_({.workers = workers_.size(),
              .notify_interval = options.notify_interval,
              .silence = options.silence}),
      pulses_(workers_.size()) {
  absl::MutexLock lock(&mutex_);
  runs_to_look_for_.insert(kAllPending);
}

DeliverLoop::~DeliverLoop() { Stop(); }

void DeliverLoop::Start() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    threads_.emplace_back([this, i] { Run(i); });
  }
}

void DeliverLoop::AddRun(int64_t run) {
  absl::MutexLock lock(&mutex_);
  runs_to_look_for_.insert(run);
  Changed();
}

void DeliverLoop::NotifyRows(int64_t run) {
  absl::MutexLock lock(&mutex_);
  if (tasks_.NotifyRows(run, options_.steady_clock())) Changed();
}

void DeliverLoop::OnRemoved(int64_t run) {
  absl::MutexLock lock(&mutex_);
  tasks_.RemoveRun(run, options_.steady_clock());
  Changed();
}

bool DeliverLoop::Drain(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  if (!std::exchange(draining_, true)) {
    tasks_.StepAll();
    Changed();
  }
  auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return pending_loaded_ && !looking_ && runs_to_look_for_.empty() && tasks_.AllDelivered();
  };
  return changed_.Await(&mutex_, timeout, done) && tasks_.set_apart() == 0;
}

void DeliverLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    Changed();
  }
  for (const Worker& worker : workers_) {
    if (worker.cancel) worker.cancel();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

DeliverLoop::Counters DeliverLoop::counters() const {
  absl::MutexLock lock(&mutex_);
  return {.steps = steps_,
          .failing = tasks_.failing(),
          .pending = tasks_.size(),
          .dead_letters = totals_.dead_letters(),
          .set_apart = tasks_.set_apart(),
          .destinations = totals_.destinations()};
}

absl::Duration DeliverLoop::Silence(absl::Time steady_now) const {
  absl::Duration longest = absl::ZeroDuration();
  for (const Pulse& pulse : pulses_) longest = std::max(longest, pulse.Silence(steady_now));
  return longest;
}

void DeliverLoop::Changed() {
  ++changes_;
  changed_.Wake();
}

void DeliverLoop::Run(size_t index) {
  const CrashStack stack;
  const Pulse::Loop loop(&pulses_[index]);
  Worker& worker = workers_[index];
  while (true) {
    const Job job = Next();
    if (job.stop) return;
    Do(job, worker);
  }
}

absl::Duration DeliverLoop::Step() {
  Job job;
  {
    absl::MutexLock lock(&mutex_);
    absl::Time next;
    if (!FindJob(&job, &next)) return next - options_.steady_clock();
  }
  Do(job, workers_[next_worker_++ % workers_.size()]);
  return absl::ZeroDuration();
}

void DeliverLoop::Do(const Job& job, Worker& worker) {
  if (!job.silent.empty()) {
    StoreSilence(job, worker);
  } else if (job.task != nullptr) {
    StepTask(job, worker);
  } else {
    LoadDeliveries(job.run, worker);
  }
}

DeliverLoop::Job DeliverLoop::Next() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    Job job;
    if (stopping_) {
      job.stop = true;
      return job;
    }
    absl::Time next;
    absl::Time next_silence;
    job.silent = tasks_.FindSilent(options_.steady_clock(), &next_silence);
    if (!job.silent.empty() || FindJob(&job, &next)) return job;
    next = std::min(next, next_silence);
    auto woken = [this, seen = changes_]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || changes_ != seen;
    };
    const Pulse::Rest rest;
    changed_.Await(&mutex_, next - options_.steady_clock(), woken);
  }
}

bool DeliverLoop::FindJob(Job* job, absl::Time* next) {
  job->draining = draining_;
  const absl::Time now = options_.steady_clock();
  // One at a time: the result of an earlier look must not overwrite that of a later one.
  const bool look = !runs_to_look_for_.empty() && !looking_;
  if (look && now >= next_load_) {
    job->run = *runs_to_look_for_.begin();
    runs_to_look_for_.erase(runs_to_look_for_.begin());
    looking_ = true;
    return true;
  }
  job->task = tasks_.Take(now, &job->key, next);
  if (job->task != nullptr) return true;
  if (look) *next = std::min(*next, next_load_);
  return false;
}

void DeliverLoop::StoreSilence(const Job& job, Worker& worker) {
  const std::vector<SilenceResult> waiting =
      SilenceResults(*worker.reader, job.silent, options_.wall_clock() - options_.steady_clock());
  const absl::Status stored = store_->SubmitAndWait([&](storage::Store& store) {
    for (const auto& [silent, result] : waiting) {
      {
        absl::MutexLock lock(&mutex_);
        if (!tasks_.SetSilence(silent, result.delivery.last_error)) continue;
      }
      if (!store.PutDelivery(result.delivery).ok()) continue;  // its run was removed
      if (options_.on_step) options_.on_step(result);
    }
    return absl::OkStatus();
  });
  {
    absl::MutexLock lock(&mutex_);
    tasks_.EndSilent(job.silent, stored.ok());
  }
  for (const auto& [silent, result] : waiting) {
    spdlog::warn("run {}: {}: {}", RunName(*worker.reader, result.delivery.run),
                 result.delivery.kind, result.delivery.last_error);
  }
}

void DeliverLoop::LoadDeliveries(int64_t run, Worker& worker) {
  absl::StatusOr<std::vector<model::Delivery>> deliveries =
      run == kAllPending ? worker.reader->PendingDeliveries() : worker.reader->Deliveries(run);
  if (!deliveries.ok()) {
    spdlog::error("deliver: cannot read the deliveries of {}: {}",
                  run == kAllPending ? "all runs" : "run " + RunName(*worker.reader, run),
                  deliveries.status().ToString());
  }
  std::map<int64_t, model::Run> runs;
  for (size_t i = 0; deliveries.ok() && i < deliveries->size(); ++i) {
    const int64_t of = (*deliveries)[i].run;
    absl::StatusOr<model::Run> made = worker.reader->GetRun(of);
    if (made.ok()) runs[of] = *std::move(made);
  }
  absl::MutexLock lock(&mutex_);
  looking_ = false;
  Changed();
  if (!deliveries.ok()) {
    runs_to_look_for_.insert(run);
    next_load_ = options_.steady_clock() + options_.retry_interval;
    return;
  }
  pending_loaded_ |= run == kAllPending;
  for (const model::Delivery& delivery : *deliveries) {
    if (!delivery.complete) tasks_.Add(delivery, runs[delivery.run]);
  }
}

}  // namespace ranklog::pipeline
