// The methods of SQLite's files and VFS. Calls that may fail ask the state first; all others go to
// the real VFS.

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tests/support/faulty_vfs_state.h"

namespace ranklog::testing {
namespace {

using State = FaultyVfs::State;

// The file that SQLite sees. The real file follows in the same allocation.
struct File {
  sqlite3_file base;
  State* state;
  std::string* path;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
const sqlite3_io_methods* Real(sqlite3_file* file) { return Of(file)->real()->pMethods; }

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

// Returns the content of [offset, offset + size), cut at the end of the file.
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

void PutInFront(FaultyVfs::State* state) {
  state->shim = *state->real;  // calls without faults go to the real VFS
  state->shim.pAppData = state;
  state->shim.szOsFile = static_cast<int>(sizeof(File)) + state->real->szOsFile;
  state->shim.xOpen = Open;
  state->shim.xDelete = Delete;
  state->shim.xGetLastError = LastError;
}

}  // namespace ranklog::testing
