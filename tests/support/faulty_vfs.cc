#include "tests/support/faulty_vfs.h"

#include <errno.h>
#include <sqlite3.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

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
  int64_t fail_write_at = 0;  // 0: never
  int64_t fail_sync_at = 0;
  int write_error = 0;
  int sync_error = 0;
  int last_error = 0;
  bool power = true;
  std::map<std::string, std::string> synced;  // by path: what a file held at its last sync

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

 private:
  int Fails(int64_t at, int64_t count, int error, int result) {
    if (power && (at == 0 || count < at)) return SQLITE_OK;
    last_error = power ? error : EIO;
    return power && error == ENOSPC && result == SQLITE_IOERR_WRITE ? SQLITE_FULL : result;
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

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

int Close(sqlite3_file* file) {
  const int result = Real(file)->xClose(Of(file)->real());
  delete Of(file)->path;
  return result;
}
int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  return Real(file)->xRead(Of(file)->real(), to, size, offset);
}
int Write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  const int result = Of(file)->state->CountWrite();
  return result != SQLITE_OK ? result : Real(file)->xWrite(Of(file)->real(), from, size, offset);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  const int result = Of(file)->state->CountWrite();
  return result != SQLITE_OK ? result : Real(file)->xTruncate(Of(file)->real(), size);
}
int Sync(sqlite3_file* file, int flags) {
  State* const state = Of(file)->state;
  int result = state->CountSync();
  if (result == SQLITE_OK) result = Real(file)->xSync(Of(file)->real(), flags);
  if (result != SQLITE_OK) return result;
  const std::lock_guard<std::mutex> lock(state->mutex);
  state->synced[*Of(file)->path] = Contents(*Of(file)->path);
  return SQLITE_OK;
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
  const std::lock_guard<std::mutex> lock(state->mutex);
  if (path != nullptr) state->synced.emplace(path, Contents(path));  // what was there before counts
  return SQLITE_OK;
}
int Delete(sqlite3_vfs* vfs, const char* path, int sync) {
  State* const state = StateOf(vfs);
  const int result = state->CountWrite();
  if (result != SQLITE_OK) return result;
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->synced.erase(path);
  }
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

void FaultyVfs::Heal() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->fail_write_at = 0;
  state_->fail_sync_at = 0;
  state_->last_error = 0;
}

void FaultyVfs::CutPower() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->power = false;
}

void FaultyVfs::LoseUnsynced() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (const auto& [path, contents] : state_->synced) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
  }
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
