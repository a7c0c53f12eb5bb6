#include "service/pipeline/retention_loop.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "service/base/status_macros.h"
#include "service/storage/staged_files.h"

namespace ranklog::pipeline {

RetentionLoop::RetentionLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader,
                             Options options)
    : store_(store), reader_(std::move(reader)), options_(std::move(options)) {}

RetentionLoop::~RetentionLoop() { Stop(); }

void RetentionLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void RetentionLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Wake();
  }
  if (thread_.joinable()) thread_.join();
}

void RetentionLoop::Run() {
  const auto woken = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || removed_; };
  while (true) {
    const absl::Duration wait = Step();
    absl::MutexLock lock(&mutex_);
    changed_.Await(&mutex_, wait, woken);
    if (stopping_) return;
  }
}

void RetentionLoop::OnRemoved(uint64_t rows) {
  absl::MutexLock lock(&mutex_);
  ++counters_.removed_runs;
  counters_.removed_rows += rows;
  removed_ = true;
  changed_.Wake();
}

RetentionLoop::Counters RetentionLoop::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

absl::Duration RetentionLoop::Step() {
  {
    absl::MutexLock lock(&mutex_);
    sweeping_ |= std::exchange(removed_, false);
  }
  if (sweeping_) {
    const absl::StatusOr<bool> more = Sweep();
    if (!more.ok()) return options_.interval;  // the store loop logs the error
    sweeping_ = *more;
    return options_.pause;
  }
  if (RemoveNext()) {
    sweeping_ = true;
    return absl::ZeroDuration();
  }
  LogRemovals();
  RemoveFiles();
  return options_.interval;
}

// Errors of the store are logged by the code that writes; the next call tries again.
void RetentionLoop::RemoveFiles() {
  if (options_.content_dir.empty()) return;
  const auto removed =
      storage::RemoveUnneededFiles(options_.content_dir, *reader_, options_.wall_clock());
  if (removed.ok() && *removed > 0) spdlog::info("removed {} staged files", *removed);
}

absl::StatusOr<bool> RetentionLoop::Sweep() {
  storage::Store::Swept swept;
  RETURN_IF_ERROR(store_->SubmitAndWait(
      [&swept](storage::Store& store) -> absl::Status {
        ASSIGN_OR_RETURN(swept, store.SweepRemoved());
        return absl::OkStatus();
      },
      /*urgent=*/false));
  absl::MutexLock lock(&mutex_);
  counters_.removed_bytes += swept.bytes;
  return swept.more;
}

bool RetentionLoop::RemoveNext() {
  const absl::StatusOr<int64_t> used = reader_->UsedBytes();
  const absl::Time now = options_.wall_clock();
  if (!used.ok()) return false;  // the writing code logs errors of the store
  if (candidates_.empty()) {
    const bool too_large = *used > options_.limits.keep_bytes;
    const absl::Duration age = too_large ? storage::kLeastAge : options_.limits.keep_for;
    if (age == absl::InfiniteDuration()) return false;
    const auto found = reader_->Removable(absl::ToUnixMicros(now - age));
    if (!found.ok()) return false;
    candidates_.assign(found->begin(), found->end());
    if (too_large && candidates_.empty()) LogTooLarge(*used);
    too_large_ &= too_large;
  }
  while (!candidates_.empty() &&
         storage::MustGo(candidates_.front(), *used, options_.limits, now)) {
    const storage::RemovableRun run = candidates_.front();
    candidates_.pop_front();
    const absl::Status removed = store_->SubmitAndWait(
        [&](storage::Store& store) { return store.RemoveRun(run.id, absl::ToUnixMicros(now)); },
        /*urgent=*/false);
    // The run continues, or has a new destination.
    if (absl::IsFailedPrecondition(removed)) continue;
    if (!removed.ok()) break;
    absl::MutexLock lock(&mutex_);
    ++counters_.removed_runs;
    counters_.removed_rows += run.rows;
    return true;
  }
  candidates_.clear();
  return false;
}

void RetentionLoop::LogRemovals() {
  const Counters now = counters();
  const Counters before = std::exchange(logged_, now);
  if (now.removed_runs == before.removed_runs && now.removed_bytes == before.removed_bytes) return;
  spdlog::info("removed {} runs with {} rows: {} KiB of the store are free again",
               now.removed_runs - before.removed_runs, now.removed_rows - before.removed_rows,
               (now.removed_bytes - before.removed_bytes) >> 10);
}

void RetentionLoop::LogTooLarge(int64_t used_bytes) {
  // With a limit of 0, the user wants to remove as much as possible; that needs no warning.
  if (options_.limits.keep_bytes == 0 || std::exchange(too_large_, true)) return;
  spdlog::warn(
      "the store uses {} MiB, above --keep-bytes ({} MiB), but no run can be removed: each is "
      "running, not fully delivered, local only, or has late or refused rows",
      used_bytes >> 20, options_.limits.keep_bytes >> 20);
}

}  // namespace ranklog::pipeline
