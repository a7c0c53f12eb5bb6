// One step of one delivery by a worker of DeliverLoop.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/base/fault_point.h"
#include "service/base/status_macros.h"
#include "service/pipeline/delivery/crash_marks.h"
#include "service/pipeline/delivery/deliver_loop.h"

namespace ranklog::pipeline {

bool DeliverLoop::Settle(Task& task) {
  if (!task.unsettled) return true;
  task.unsettled = !store_->SubmitAndWait([](storage::Store&) { return absl::OkStatus(); }).ok();
  return !task.unsettled;
}

bool DeliverLoop::Make(const Job& job, Worker& worker) {
  absl::StatusOr<model::Run> run = worker.reader->GetRun(job.key.first);
  absl::StatusOr<std::vector<model::Delivery>> deliveries =
      worker.reader->Deliveries(job.key.first);
  if (!run.ok() || !deliveries.ok()) return false;
  {
    absl::MutexLock lock(&mutex_);
    job.task->run_id = run->run_id;
  }
  for (const model::Delivery& delivery : *deliveries) {
    if (delivery.kind != job.key.second) continue;
    job.task->counted_rows = AnsweredRowsOf(delivery);
    job.task->delivery = worker.make(*run, delivery);
  }
  return job.task->delivery != nullptr;
}

bool DeliverLoop::IsRemoved(const Task& task) const {
  absl::MutexLock lock(&mutex_);
  return task.removed;
}

void DeliverLoop::StepTask(const Job& job, Worker& worker) {
  if (IsRemoved(*job.task)) {
    Finish(job, absl::ZeroDuration(), nullptr, /*delivered=*/true);
    return;
  }
  if (const absl::Time now = options_.steady_clock(); now < job.task->not_before) {
    Finish(job, job.task->not_before - now, nullptr, /*delivered=*/false);
    return;
  }
  if (!Settle(*job.task)) {
    Finish(job, options_.retry_interval, nullptr, /*delivered=*/false);
    return;
  }
  const DeliveryInProgress under_way(static_cast<size_t>(&worker - workers_.data()), job.key.first,
                                     job.key.second);
  FaultPoint(absl::StrCat("deliver ", job.key.first));
  if (job.task->delivery == nullptr && !Make(job, worker)) {
    Finish(job, absl::Minutes(1), nullptr, /*delivered=*/false);
    return;
  }
  FaultPoint("send");
  const absl::Time began = options_.steady_clock();
  deliver::StepResult result = job.task->delivery->Step(*worker.reader, began, job.draining);
  const absl::Duration took = options_.steady_clock() - began;
  {
    absl::MutexLock lock(&mutex_);
    tasks_.UpdateSilence(*job.task, options_.steady_clock(), &result);
  }
  FaultPoint("answer");
  if (result.changed || !result.dead_letters.empty()) {
    if (const absl::Status saved = Save(result); !saved.ok()) {
      // Its state is ahead of the store: start again from the stored state.
      job.task->delivery = nullptr;
      job.task->unsettled = true;
      // After success, the wait would be an unlimited wait for more rows.
      if (!result.delivery.last_error.empty()) {
        job.task->not_before = options_.steady_clock() + result.wait;
      }
      Finish(job, options_.retry_interval, nullptr, /*delivered=*/false);
      return;
    }
    FaultPoint("mark");
  }
  {
    absl::MutexLock lock(&mutex_);
    totals_.Add(result, took, options_.wall_clock(), job.task->counted_rows);
  }
  if (result.delivery.complete && Reopened(result.delivery, worker)) {
    job.task->delivery = nullptr;
    Finish(job, options_.retry_interval, nullptr, /*delivered=*/false);
    return;
  }
  const bool delivered =
      result.delivery.complete || (job.draining && AllSent(result.delivery, worker));
  Finish(job, result.wait, &result, delivered);
}

absl::Status DeliverLoop::Save(deliver::StepResult& result) {
  for (model::DeadLetter& letter : result.dead_letters) {
    letter.time_us = absl::ToUnixMicros(options_.wall_clock());
  }
  return store_->SubmitAndWait([&result](storage::Store& store) {
    for (const model::DeadLetter& letter : result.dead_letters) {
      RETURN_IF_ERROR(store.AddDeadLetter(letter));
    }
    return store.PutDelivery(result.delivery);
  });
}

bool DeliverLoop::Reopened(const model::Delivery& delivery, Worker& worker) const {
  const absl::StatusOr<std::vector<model::Delivery>> stored =
      worker.reader->Deliveries(delivery.run);
  if (!stored.ok()) return true;  // a new delivery will read it again
  return std::any_of(stored->begin(), stored->end(), [&](const model::Delivery& each) {
    return each.kind == delivery.kind && !each.complete;
  });
}

bool DeliverLoop::AllSent(const model::Delivery& delivery, Worker& worker) const {
  if (!delivery.last_error.empty()) return false;
  absl::StatusOr<model::Run> run = worker.reader->GetRun(delivery.run);
  return run.ok() && run->state == model::RunState::kRunning &&
         delivery.delivered_rows >= run->rows;
}

void DeliverLoop::Finish(const Job& job, absl::Duration wait, const deliver::StepResult* result,
                         bool delivered) {
  // Before another worker may make the task's next step, whose result must come later.
  if (result != nullptr && options_.on_step) options_.on_step(*result);
  DeliveryTasks::StepEnd end{.wait = wait, .result = result, .delivered = delivered};
  DeliveryTasks::ErrorChange change;
  {
    absl::MutexLock lock(&mutex_);
    ++steps_;
    end.repeat = draining_ && !job.draining;
    change = tasks_.Finish(job.key, *job.task, end, options_.steady_clock());
    Changed();
  }
  if (!change.changed) return;
  if (change.error.empty()) {
    spdlog::info("run {}: {} accepts rows again", change.run_id, job.key.second);
  } else {
    spdlog::warn("run {}: {}: {}", change.run_id, job.key.second, change.error);
  }
}

}  // namespace ranklog::pipeline
