#include "tests/support/faulty_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace ranklog::testing {
namespace {

constexpr char kName[] = "faulty";

}  // namespace

struct FaultyVfs::State {
  sqlite3_vfs shim = {};
  sqlite3_vfs* real = nullptr;

  std::mutex mutex;  // the writer and the checkpoint may be on two threads
  int64_t writes = 0;
  int64_t syncs = 0;
  int64_t reads = 0;
  int64_t fail_write_at = 0;  // 0: never
  int64_t fail_sync_at = 0;
  int64_t fail_read_at = 0;
  int64_t freeze_at = 0;  // of writes and syncs together
  int write_error = 0;
  int sync_error = 0;
  int read_error = 0;
  int last_error = 0;
  bool tear = false;
  bool frozen = false;
  bool power = true;

  // A write or a truncation since the file's last sync.
  struct Change {
    bool truncation;
    int64_t offset;  // or the size after it
    std::string before;
    std::string after;
    int64_t size_before;
  };
  std::map<std::string, std::vector<Change>> unsynced;  // by path

  // SQLITE_OK, or how SQLite's own VFS reports such an error.
  int CountWrite() {
    const std::lock_guard<std::mutex> lock(mutex);
    ++writes;
    return Fails(fail_write_at, writes, write_error, SQLITE_IOERR_WRITE);
  }
  int CountSync() {
    const std::lock_guard<std::mutex> lock(mutex);
    ++syncs;
    return Fails(fail_sync_at, syncs, sync_error, SQLITE_IOERR_FSYNC);
  }
  int CountRead() {
    const std::lock_guard<std::mutex> lock(mutex);
    ++reads;
    if (fail_read_at == 0 || reads < fail_read_at || frozen || !power) return SQLITE_OK;
    last_error = read_error;
    return SQLITE_IOERR_READ;
  }
  void Forget(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex);
    unsynced.erase(path);
  }

 private:
  int Fails(int64_t at, int64_t count, int error, int result) {
    frozen = frozen || (freeze_at != 0 && writes + syncs >= freeze_at);
    if (power && !frozen && (at == 0 || count < at)) return SQLITE_OK;
    const bool cut = !power || frozen;
    last_error = cut ? EIO : error;
    return !cut && error == ENOSPC && result == SQLITE_IOERR_WRITE ? SQLITE_FULL : result;
  }
};

namespace {

using State = FaultyVfs::State;

// The file that SQLite sees; the real one lies behind it in the same allocation.
struct File {
  sqlite3_file base;
  State* state;
  std::string* path;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
const sqlite3_io_methods* Real(sqlite3_file* file) { return Of(file)->real()->pMethods; }

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

int Close(sqlite3_file* file) {
  const int result = Real(file)->xClose(Of(file)->real());
  delete Of(file)->path;
  return result;
}
int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  const int result = Of(file)->state->CountRead();
  return result != SQLITE_OK ? result : Real(file)->xRead(Of(file)->real(), to, size, offset);
}

int64_t SizeOf(sqlite3_file* file) {
  sqlite3_int64 size = 0;
  Real(file)->xFileSize(Of(file)->real(), &size);
  return size;
}

// What lies at [offset, offset + size), as far as the file goes.
std::string Piece(sqlite3_file* file, int64_t offset, int64_t size) {
  const int64_t there = std::clamp<int64_t>(SizeOf(file) - offset, 0, size);
  std::string bytes(static_cast<size_t>(there), '\0');
  if (there > 0) Real(file)->xRead(Of(file)->real(), bytes.data(), static_cast<int>(there), offset);
  return bytes;
}

void Remember(sqlite3_file* file, State::Change change) {
  State* const state = Of(file)->state;
  const std::lock_guard<std::mutex> lock(state->mutex);
  state->unsynced[*Of(file)->path].push_back(std::move(change));
}

int Store(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  Remember(file, {.truncation = false,
                  .offset = offset,
                  .before = Piece(file, offset, size),
                  .after = std::string(static_cast<const char*>(from), static_cast<size_t>(size)),
                  .size_before = SizeOf(file)});
  return Real(file)->xWrite(Of(file)->real(), from, size, offset);
}

int Write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  State* const state = Of(file)->state;
  bool whole_before;
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    whole_before = state->power && !state->frozen;
  }
  const int result = state->CountWrite();
  if (result == SQLITE_OK) return Store(file, from, size, offset);
  bool tear;
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    tear = state->tear && whole_before;
  }
  if (tear && size > 1) Store(file, from, size / 2, offset);
  return result;
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  const int result = Of(file)->state->CountWrite();
  if (result != SQLITE_OK) return result;
  Remember(file, {.truncation = true,
                  .offset = size,
                  .before = Piece(file, size, SizeOf(file)),
                  .after = "",
                  .size_before = SizeOf(file)});
  return Real(file)->xTruncate(Of(file)->real(), size);
}
int Sync(sqlite3_file* file, int flags) {
  State* const state = Of(file)->state;
  int result = state->CountSync();
  if (result == SQLITE_OK) result = Real(file)->xSync(Of(file)->real(), flags);
  if (result == SQLITE_OK) state->Forget(*Of(file)->path);
  return result;
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Real(file)->xFileSize(Of(file)->real(), size);
}
int Lock(sqlite3_file* file, int level) { return Real(file)->xLock(Of(file)->real(), level); }
int Unlock(sqlite3_file* file, int level) { return Real(file)->xUnlock(Of(file)->real(), level); }
int CheckReservedLock(sqlite3_file* file, int* held) {
  return Real(file)->xCheckReservedLock(Of(file)->real(), held);
}
int FileControl(sqlite3_file* file, int operation, void* argument) {
  return Real(file)->xFileControl(Of(file)->real(), operation, argument);
}
int SectorSize(sqlite3_file* file) { return Real(file)->xSectorSize(Of(file)->real()); }
int DeviceCharacteristics(sqlite3_file* file) {
  return Real(file)->xDeviceCharacteristics(Of(file)->real());
}
int ShmMap(sqlite3_file* file, int page, int size, int extend, void volatile** memory) {
  return Real(file)->xShmMap(Of(file)->real(), page, size, extend, memory);
}
int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
  return Real(file)->xShmLock(Of(file)->real(), offset, n, flags);
}
void ShmBarrier(sqlite3_file* file) { Real(file)->xShmBarrier(Of(file)->real()); }
int ShmUnmap(sqlite3_file* file, int remove) {
  return Real(file)->xShmUnmap(Of(file)->real(), remove);
}

constexpr sqlite3_io_methods kMethods = {2,
                                         Close,
                                         Read,
                                         Write,
                                         Truncate,
                                         Sync,
                                         FileSize,
                                         Lock,
                                         Unlock,
                                         CheckReservedLock,
                                         FileControl,
                                         SectorSize,
                                         DeviceCharacteristics,
                                         ShmMap,
                                         ShmLock,
                                         ShmBarrier,
                                         ShmUnmap,
                                         nullptr,
                                         nullptr};

State* StateOf(sqlite3_vfs* vfs) { return static_cast<State*>(vfs->pAppData); }

int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  State* const state = StateOf(vfs);
  File* const shim = new (file) File{{nullptr}, state, nullptr};
  std::memset(static_cast<void*>(shim->real()), 0, static_cast<size_t>(state->real->szOsFile));
  const int result = state->real->xOpen(state->real, path, shim->real(), flags, out_flags);
  if (result != SQLITE_OK) return result;
  shim->path = new std::string(path == nullptr ? "" : path);
  shim->base.pMethods = &kMethods;
  return SQLITE_OK;
}
int Delete(sqlite3_vfs* vfs, const char* path, int sync) {
  State* const state = StateOf(vfs);
  const int result = state->CountWrite();
  if (result != SQLITE_OK) return result;
  state->Forget(path);
  return state->real->xDelete(state->real, path, sync);
}
int LastError(sqlite3_vfs* vfs, int, char*) {
  State* const state = StateOf(vfs);
  const std::lock_guard<std::mutex> lock(state->mutex);
  return state->last_error;
}

}  // namespace

FaultyVfs::FaultyVfs() : state_(std::make_unique<State>()) {
  state_->real = sqlite3_vfs_find(nullptr);
  state_->shim = *state_->real;  // what is not about faults goes to the real one
  state_->shim.zName = kName;
  state_->shim.pAppData = state_.get();
  state_->shim.szOsFile = static_cast<int>(sizeof(File)) + state_->real->szOsFile;
  state_->shim.xOpen = Open;
  state_->shim.xDelete = Delete;
  state_->shim.xGetLastError = LastError;
  sqlite3_vfs_register(&state_->shim, /*makeDflt=*/0);
}

FaultyVfs::~FaultyVfs() { sqlite3_vfs_unregister(&state_->shim); }

const char* FaultyVfs::name() const { return kName; }

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
