// Files of the run that are saved at its end, or each time that they have changed.

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/run/run_state.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

// Of copies of a live file, on average. While no tracker answers, the daemon keeps them all.
constexpr int64_t kBytesPerSecond = 256 << 10;

}  // namespace

std::shared_ptr<Upload> RunState::KeepSaving(const std::string& path, std::string name, bool live) {
  auto file = std::make_shared<SavedFile>();
  file->path = Absolute(path);
  file->name = std::move(name);
  file->live = live;
  file->upload = std::make_shared<Upload>();
  if (settings_.disabled) {
    file->upload->Staged();
    return file->upload;
  }
  if (!usable_) return RefuseUpload("the run has no memory");
  bool watches = false;
  {
    MutexLock lock(StateMutex());
    ForgetParent();
    if (closed_.load(std::memory_order_relaxed) || saves_ended_) {
      file = nullptr;
    } else {
      saved_.push_back(file);
      watches = live && !std::exchange(saves_are_watched_, true);
    }
  }
  if (file == nullptr) return RefuseUpload("the run has finished");
  if (watches) {
    // If there can be no thread, the last copy is refused.
    Stager::Get()->Watch([run = weak_from_this()] {
      const std::shared_ptr<RunState> state = run.lock();
      return state != nullptr && state->StageChangedSaves();
    });
  }
  if (live) Stager::Get()->Add([run = shared_from_this()] { run->StageChangedSaves(); });
  return file->upload;
}

bool RunState::StageChangedSaves() noexcept {
  try {
    std::vector<std::shared_ptr<SavedFile>> files;
    {
      MutexLock lock(StateMutex());
      if (saves_ended_) return false;
      files = saved_;
    }
    for (const std::shared_ptr<SavedFile>& file : files) {
      if (!file->live || Clock::now() < file->not_before) continue;
      const FileStamp stamp = StampOf(file->path);
      if (stamp == file->staged) continue;
      bool counted = false;
      if (!TryStage(RunFileStage(file->path, file->name), &counted).ok()) continue;
      file->staged = stamp;
      file->not_before =
          Clock::now() + std::chrono::seconds(std::max<int64_t>(stamp.bytes, 0) / kBytesPerSecond);
      if (file->upload->state() == Upload::kStaging) file->upload->Staged();
    }
  } catch (...) {  // no memory: the next check tries again
  }
  return true;
}

void RunState::EndSaves() {
  {
    MutexLock lock(StateMutex());
    saves_ended_ = true;
    if (saved_.empty()) return;
  }
  staging_.fetch_add(1);
  Advance()(0);
  const bool added = Stager::Get()->Add([run = shared_from_this()] {
    run->StageLastSaves();
    run->StagingEnds();
  });
  if (added) return;
  staging_cancelled_.store(true);
  StageLastSaves();
  StagingEnds();
}

void RunState::StageLastSaves() noexcept {
  std::vector<std::shared_ptr<SavedFile>> files;
  {
    MutexLock lock(StateMutex());
    files.swap(saved_);
  }
  for (const std::shared_ptr<SavedFile>& file : files) {
    absl::Status status = absl::ResourceExhaustedError("no memory");
    bool counted = false;
    try {
      const bool has_copy = file->upload->state() == Upload::kStaged;
      const FileStamp stamp = StampOf(file->path);
      // A live file that was removed stays as it was.
      if (has_copy && (stamp == file->staged || stamp == FileStamp())) continue;
      status = TryStage(RunFileStage(file->path, file->name), &counted);
    } catch (...) {
    }
    if (!status.ok()) {
      RefuseStaged(status, counted, file->upload.get());
    } else if (file->upload->state() == Upload::kStaging) {
      file->upload->Staged();
    }
  }
}

}  // namespace ranklog::internal
