#include "tests/support/faulty_vfs.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "tests/support/faulty_vfs_state.h"

namespace ranklog::testing {
namespace {

using State = FaultyVfs::State;

void Put(int fd, const std::string& bytes, int64_t offset) {
  if (pwrite(fd, bytes.data(), bytes.size(), offset) < 0) std::abort();
}
void Resize(int fd, int64_t size) {
  if (ftruncate(fd, size) != 0) std::abort();
}
void Undo(int fd, const State::Change& change) {
  Put(fd, change.before, change.offset);
  Resize(fd, change.size_before);
}
void Redo(int fd, const State::Change& change) {
  if (change.truncation) {
    Resize(fd, change.offset);
  } else {
    Put(fd, change.after, change.offset);
  }
}

}  // namespace

FaultyVfs::FaultyVfs() : state_(std::make_unique<State>()) {
  state_->real = sqlite3_vfs_find(nullptr);
  PutInFront(state_.get());
  static std::atomic<int> made{0};
  state_->registered_name = "faulty-" + std::to_string(++made);
  state_->shim.zName = state_->registered_name.c_str();
  sqlite3_vfs_register(&state_->shim, /*makeDflt=*/0);
}

FaultyVfs::~FaultyVfs() { sqlite3_vfs_unregister(&state_->shim); }

const char* FaultyVfs::name() const { return state_->shim.zName; }

void FaultyVfs::FailWrites(int64_t n, int error) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->fail_write_at = state_->writes + n;
  state_->write_error = error;
}

void FaultyVfs::FailSyncs(int64_t n, int error) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->fail_sync_at = state_->syncs + n;
  state_->sync_error = error;
}

void FaultyVfs::FailReads(int64_t n, int error) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->fail_read_at = state_->reads + n;
  state_->read_error = error;
}

void FaultyVfs::TearWrites(bool tear) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->tear = tear;
}

void FaultyVfs::Heal() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->fail_write_at = 0;
  state_->fail_sync_at = 0;
  state_->fail_read_at = 0;
  state_->last_error = 0;
}

void FaultyVfs::FreezeAt(int64_t n) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->freeze_at = state_->writes + state_->syncs + n;
}

bool FaultyVfs::frozen() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->frozen;
}

void FaultyVfs::Thaw() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->freeze_at = 0;
  state_->frozen = false;
}

void FaultyVfs::CutPower() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->power = false;
}

void FaultyVfs::LoseUnsynced(const std::function<bool()>& keeps) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (const auto& [path, changes] : state_->unsynced) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) continue;
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) Undo(fd, *change);
    for (const State::Change& change : changes) {
      if (keeps && keeps()) Redo(fd, change);
    }
    close(fd);
  }
  state_->unsynced.clear();
  state_->power = true;
}

int64_t FaultyVfs::writes() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->writes;
}

int64_t FaultyVfs::syncs() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->syncs;
}

}  // namespace ranklog::testing
