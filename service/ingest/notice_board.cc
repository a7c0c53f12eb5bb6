#include "service/ingest/notice_board.h"

#include <utility>

namespace ranklog::ingest {

void NoticeBoard::Post(int64_t run, const v1::Notice& notice) {
  absl::MutexLock lock(&mutex_);
  auto& notices = current_[run];
  const auto found = notices.find(notice.key());
  if (notice.over()) {
    if (found == notices.end()) return;
    notices.erase(found);
  } else {
    if (found != notices.end() && found->second.text() == notice.text()) return;
    notices[notice.key()] = notice;
  }
  for (const auto& [number, entry] : listeners_) {
    if (run == kAllRuns || entry.run == run) entry.listener(notice);
  }
}

void NoticeBoard::SendRunId(int64_t run, const std::string& run_id) {
  if (run_id.empty()) return;
  v1::Notice notice;
  notice.set_key("run");
  notice.set_text(run_id);
  absl::MutexLock lock(&mutex_);
  for (auto& [number, entry] : listeners_) {
    if (entry.run != run || entry.run_id == run_id) continue;
    entry.run_id = run_id;
    entry.listener(notice);
  }
}

void NoticeBoard::Forget(int64_t run) {
  absl::MutexLock lock(&mutex_);
  current_.erase(run);
}

uint64_t NoticeBoard::AddListener(Listener listener) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, notice] : current_[kAllRuns]) listener(notice);
  listeners_[++last_listener_] = {std::move(listener), kAllRuns, ""};
  return last_listener_;
}

std::vector<v1::Notice> NoticeBoard::FollowRun(uint64_t listener, int64_t run) {
  absl::MutexLock lock(&mutex_);
  const auto entry = listeners_.find(listener);
  if (entry != listeners_.end()) entry->second.run = run;
  std::vector<v1::Notice> notices;
  for (const int64_t of : {kAllRuns, run}) {
    const auto found = current_.find(of);
    if (found == current_.end()) continue;
    for (const auto& [key, notice] : found->second) notices.push_back(notice);
  }
  return notices;
}

void NoticeBoard::RemoveListener(uint64_t listener) {
  absl::MutexLock lock(&mutex_);
  listeners_.erase(listener);
}

}  // namespace ranklog::ingest
