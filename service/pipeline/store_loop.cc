#include "service/pipeline/store_loop.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "service/base/clock.h"
#include "service/base/fault_point.h"
#include "service/base/status_macros.h"

namespace ranklog::pipeline {
namespace {

// Errors of the store itself, after which its transaction cannot be trusted. Any other error
// belongs to the write that caused it.
bool WantsRetry(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

}  // namespace

std::string OutcomeText(const absl::Status& committed) {
  if (committed.ok()) return "the daemon stores rows again";
  return absl::StrCat("the daemon cannot store rows (", absl::string_view(committed.message()),
                      "); they stay in the spools",
                      absl::IsResourceExhausted(committed) ? "; free space on that disk" : "",
                      WantsRetry(committed) ? "; the daemon retries by itself" : "");
}

StoreLoop::StoreLoop(std::unique_ptr<storage::Store> store, Options options)
    : store_(std::move(store)), options_(options) {
  if (!options_.threads) return;
  checkpoint_thread_ = std::thread([this] { Checkpoints(); });
  thread_ = std::thread([this] { Run(); });
}

StoreLoop::~StoreLoop() { Stop(); }

void StoreLoop::Submit(Write write) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_) {
      urgent_ |= write.urgent;
      queued_bytes_ += write.bytes;
      queue_.push_back(std::move(write));
      if (MustCommitNow()) changed_.Wake();
      return;
    }
  }
  if (write.done) write.done(absl::UnavailableError("the daemon is stopping"));
}

absl::Status StoreLoop::SubmitAndWait(absl::AnyInvocable<absl::Status(storage::Store&)> apply,
                                      bool urgent) {
  absl::Status result;
  absl::Notification answered;
  Submit({.apply = std::move(apply),
          .done =
              [&](absl::Status status) {
                result = std::move(status);
                answered.Notify();
              },
          .urgent = urgent});
  if (!options_.threads) {
    Step();
    if (!answered.HasBeenNotified()) {
      DropLast();
      return absl::UnavailableError(counters().last_error);
    }
  }
  const Pulse::Rest rest;
  answered.WaitForNotification();
  return result;
}

absl::Duration StoreLoop::Step() {
  {
    absl::MutexLock lock(&mutex_);
    for (Write& write : queue_) unfinished_.push_back(std::move(write));
    queue_.clear();
    urgent_ = false;
  }
  if (unfinished_.empty() || CommitAndAnswer()) return absl::InfiniteDuration();
  return options_.retry_interval;
}

void StoreLoop::DropLast() {
  const size_t bytes = unfinished_.back().bytes;
  unfinished_.pop_back();
  absl::MutexLock lock(&mutex_);
  queued_bytes_ -= bytes;
}

bool StoreLoop::full() const {
  absl::MutexLock lock(&mutex_);
  return queued_bytes_ >= options_.max_queued_bytes;
}

StoreLoop::Counters StoreLoop::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

void StoreLoop::StopRetrying() {
  absl::MutexLock lock(&mutex_);
  retrying_ = false;
  changed_.Wake();
}

void StoreLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    retrying_ = false;
    changed_.Wake();
  }
  if (thread_.joinable()) thread_.join();
  if (checkpoint_thread_.joinable()) checkpoint_thread_.join();
  if (!options_.threads) Step();
}

void StoreLoop::Run() {
  const Pulse::Loop loop(&pulse_);
  while (true) {
    unfinished_ = Take();
    if (unfinished_.empty()) return;
    while (!CommitAndAnswer()) WaitToRetry();
  }
}

bool StoreLoop::MustCommitNow() const {
  return urgent_ || stopping_ || queued_bytes_ >= options_.commit_bytes;
}

std::deque<StoreLoop::Write> StoreLoop::Take() {
  absl::MutexLock lock(&mutex_);
  auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() || stopping_;
  };
  const Pulse::Rest rest;
  mutex_.Await(absl::Condition(&has_work));
  const auto hurry = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return MustCommitNow(); };
  changed_.Await(&mutex_, options_.commit_interval, hurry);
  urgent_ = false;
  return std::exchange(queue_, {});
}

absl::Status StoreLoop::TryCommit(std::deque<Write>& writes, std::vector<absl::Status>& statuses) {
  statuses.clear();
  RETURN_IF_ERROR(store_->Begin());
  for (Write& write : writes) {
    absl::Status applied = store_->Mark();
    if (applied.ok()) {
      applied = write.apply(*store_);
      FaultPoint("append");
      if (!applied.ok() && !WantsRetry(applied)) store_->RollbackToMark();
    }
    if (WantsRetry(applied)) {
      store_->Rollback();
      return applied;
    }
    statuses.push_back(std::move(applied));
  }
  FaultPoint("commit");
  return store_->Commit();
}

bool StoreLoop::CommitAndAnswer() {
  std::vector<absl::Status> statuses;
  const absl::Time began = SteadyNow();
  absl::Status committed = TryCommit(unfinished_, statuses);
  if (ShouldRetry(committed, SteadyNow() - began)) return false;
  std::deque<Write> writes = std::exchange(unfinished_, {});
  if (WantsRetry(committed)) committed = absl::UnavailableError(committed.message());

  FaultPoint("ack");
  size_t bytes = 0;
  uint64_t refused = 0;
  for (size_t i = 0; i < writes.size(); ++i) {
    bytes += writes[i].bytes;
    if (committed.ok() && !statuses[i].ok()) ++refused;
  }
  {
    absl::MutexLock lock(&mutex_);
    queued_bytes_ -= bytes;
    counters_.refused_writes += refused;
    if (committed.ok()) counters_.writes += writes.size() - refused;
  }
  for (size_t i = 0; i < writes.size(); ++i) {
    if (writes[i].done) writes[i].done(committed.ok() ? std::move(statuses[i]) : committed);
  }
  return true;
}

bool StoreLoop::ShouldRetry(const absl::Status& committed, absl::Duration took) {
  bool changed = false;
  bool retrying = false;
  {
    absl::MutexLock lock(&mutex_);
    // Compares codes, not messages: a message names the failed statement, which differs between
    // tries.
    changed = std::exchange(outcome_, committed.code()) != committed.code();
    counters_.last_error = std::string(committed.message());
    if (committed.ok()) {
      ++counters_.commits;
      counters_.commit_time.Add(took);
      needs_checkpoint_ = true;
    } else {
      ++counters_.failed_commits;
    }
    retrying = retrying_;
  }
  if (changed && retrying) {  // otherwise the caller tells the error
    spdlog::log(committed.ok() ? spdlog::level::info : spdlog::level::err, OutcomeText(committed));
  }
  if (changed && options_.on_outcome) options_.on_outcome(committed);
  return WantsRetry(committed) && retrying;
}

void StoreLoop::WaitToRetry() {
  absl::MutexLock lock(&mutex_);
  const auto give_up = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !retrying_; };
  const Pulse::Rest rest;
  changed_.Await(&mutex_, options_.retry_interval, give_up);
}

void StoreLoop::Checkpoints() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return needs_checkpoint_ || stopping_;
      };
      mutex_.Await(absl::Condition(&wanted));
      const auto stopping = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; };
      changed_.Await(&mutex_, options_.checkpoint_interval, stopping);
      if (stopping_) return;  // closing the store runs the last checkpoint
      needs_checkpoint_ = false;
      ++counters_.checkpoints;
    }
    Checkpoint();
  }
}

void StoreLoop::Checkpoint() {
  // If a reader is in the way or the disk is full, the next checkpoint does the work.
  store_->Checkpoint().IgnoreError();
}

}  // namespace ranklog::pipeline
