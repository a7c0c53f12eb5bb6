#include "service/pipeline/delivery/delivery_tasks.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "service/deliver/destination.h"

namespace ranklog::pipeline {

void DeliveryTasks::Schedule(const Key& key, const Task& task, absl::Time due) {
  task.server->schedule.Put(key, due, task.live);
}

void DeliveryTasks::Add(const model::Delivery& delivery, const model::Run& run) {
  if (delivery.set_apart()) {
    set_apart_.insert({delivery.run, delivery.kind});
    return;
  }
  set_apart_.erase({delivery.run, delivery.kind});
  auto [found, added] = tasks_.try_emplace({delivery.run, delivery.kind});
  Task& task = found->second;
  task.reopened = task.stepping;
  task.live = run.state == model::RunState::kRunning;
  if (added) {
    const deliver::Destination* const destination = deliver::FindDestination(delivery.kind);
    task.server = &servers_[{delivery.kind,
                             destination == nullptr ? "" : destination->AddressOf(run.settings)}];
  }
  if (added || (!task.stepping && !task.last_error.empty())) TryNow(found->first, task);
}

void DeliveryTasks::TryNow(const Key& key, Task& task) {
  task.delivery = nullptr;  // a new delivery has no backoff
  Schedule(key, task, absl::InfinitePast());
}

bool DeliveryTasks::NotifyRows(int64_t run, absl::Time now) {
  bool earlier = false;
  for (auto i = tasks_.lower_bound({run, ""}); i != tasks_.end() && i->first.first == run; ++i) {
    Task& task = i->second;
    task.delivered = false;
    task.notified = true;
    const absl::Time due = std::max(now, task.last_step + options_.notify_interval);
    if (task.stepping || due >= task.server->schedule.DueOf(i->first)) continue;
    Schedule(i->first, task, due);
    earlier = true;
  }
  return earlier;
}

void DeliveryTasks::RemoveRun(int64_t run, absl::Time now) {
  std::erase_if(set_apart_, [run](const Key& key) { return key.first == run; });
  for (auto i = tasks_.lower_bound({run, ""}); i != tasks_.end() && i->first.first == run; ++i) {
    i->second.removed = true;  // Finish() removes it
    if (!i->second.stepping) Schedule(i->first, i->second, now);
  }
}

void DeliveryTasks::StepAll() {
  for (auto& [key, task] : tasks_) {
    task.delivered = false;
    if (!task.stepping) Schedule(key, task, absl::InfinitePast());
  }
}

bool DeliveryTasks::AllDelivered() const {
  return std::all_of(tasks_.begin(), tasks_.end(),
                     [](const auto& task) { return task.second.delivered; });
}

size_t DeliveryTasks::failing() const {
  return static_cast<size_t>(std::count_if(tasks_.begin(), tasks_.end(), [](const auto& task) {
    return !task.second.last_error.empty();
  }));
}

DeliveryTasks::Task* DeliveryTasks::Take(absl::Time now, Key* key, absl::Time* next) {
  Server* const server = FindServer(now, next);
  if (server == nullptr) return nullptr;
  *key = *server->schedule.Take(now);
  Task& task = tasks_.at(*key);
  task.stepping = true;
  task.step_began = now;
  task.notified = false;
  task.reopened = false;
  ++server->stepping;
  ++stepping_;
  server->last_turn = ++turns_;
  return &task;
}

DeliveryTasks::Server* DeliveryTasks::FindServer(absl::Time now, absl::Time* next) {
  *next = absl::InfiniteFuture();
  const size_t free = options_.workers - stepping_;
  Server* found = nullptr;
  for (auto& [place, server] : servers_) {
    if (server.stepping > 0 && server.stepping >= free) continue;
    *next = std::min(*next, server.schedule.Next());
    if (server.schedule.Next() > now) continue;
    if (found == nullptr ||
        std::tie(server.stepping, server.last_turn) < std::tie(found->stepping, found->last_turn)) {
      found = &server;
    }
  }
  return found;
}

DeliveryTasks::ErrorChange DeliveryTasks::Finish(const Key& key, Task& task, const StepEnd& end,
                                                 absl::Time now) {
  ErrorChange change;
  task.stepping = false;
  --task.server->stepping;
  --stepping_;
  task.last_step = now;
  task.delivered = end.delivered && !task.notified;
  absl::Time due = task.last_step + end.wait;
  if (task.notified) due = std::min(due, task.last_step + options_.notify_interval);
  if (end.repeat) due = task.last_step;
  bool complete = false;
  if (end.result != nullptr) {
    change.error = end.result->delivery.last_error;
    // A silence that was stored after UpdateSilence(); the next step detects that it may be over.
    if (change.error.empty() && task.silent) change.error = task.last_error;
    change.changed = change.error != task.last_error;
    task.last_error = change.error;
    change.run_id = task.run_id;
    task.live = end.result->live;
    if (end.result->prepared) due = absl::InfinitePast();
    complete = end.result->delivery.complete && !task.reopened;
  }
  const bool stuck =
      end.result != nullptr && (end.result->delivery.complete || !change.error.empty());
  if (complete || task.removed) {
    tasks_.erase(key);
  } else if (task.reopened && stuck) {
    TryNow(key, task);
  } else {
    Schedule(key, task, due);
  }
  return change;
}

std::vector<DeliveryTasks::Silent> DeliveryTasks::FindSilent(absl::Time now, absl::Time* next) {
  *next = absl::InfiniteFuture();
  if (tasks_.empty()) return {};
  if (now < next_silence_) {
    *next = next_silence_;
    return {};
  }
  *next = next_silence_ = now + options_.silence / 2;
  const absl::Time long_ago = now - options_.silence;
  for (auto& [key, task] : tasks_) {
    if (!task.stepping || task.step_began > long_ago) continue;
    Server& server = *task.server;
    if (server.answered < task.step_began) {
      server.silent_since = std::min(server.silent_since, task.step_began);
    }
  }
  std::vector<Silent> found;
  for (auto& [key, task] : tasks_) {
    absl::Time since = task.server->silent_since;
    if (task.stepping) since = std::min(since, task.step_began);
    if (since > long_ago || task.silent || !task.last_error.empty()) continue;
    task.silent = true;
    found.push_back({key, since, task.step_began});
  }
  return found;
}

bool DeliveryTasks::SetSilence(const Silent& silent, const std::string& error) {
  const auto found = tasks_.find(silent.key);
  if (found == tasks_.end() || !found->second.silent ||
      found->second.step_began != silent.step_began) {
    return false;
  }
  found->second.last_error = error;
  return true;
}

void DeliveryTasks::EndSilent(const std::vector<Silent>& silent, bool stored) {
  for (const Silent& each : silent) {
    const auto found = tasks_.find(each.key);
    if (found == tasks_.end() || !found->second.silent) continue;
    Task& task = found->second;
    if (!stored) task.last_error.clear();
    task.silent = !task.last_error.empty();  // if false, it is checked again: rows may arrive
  }
}

void DeliveryTasks::UpdateSilence(Task& task, absl::Time now, deliver::StepResult* result) {
  using Exchange = deliver::StepResult::Exchange;
  Server& server = *task.server;
  if (result->exchange == Exchange::kAnswered) {
    server.answered = now;
    server.silent_since = absl::InfiniteFuture();
  } else if (result->exchange == Exchange::kUnanswered && server.answered < task.step_began) {
    server.silent_since = std::min(server.silent_since, task.step_began);
  } else if (result->exchange == Exchange::kNone && server.silent_since == task.step_began) {
    server.silent_since = absl::InfiniteFuture();  // this step was slow, without a request
  }
  if (!task.silent) return;
  const bool goes_on = result->exchange == Exchange::kNone && !task.last_error.empty() &&
                       result->delivery.last_error.empty() &&
                       server.silent_since < absl::InfiniteFuture();
  if (goes_on) {
    result->delivery.last_error = task.last_error;
  } else {
    task.silent = false;
    result->changed = true;
  }
}

}  // namespace ranklog::pipeline
