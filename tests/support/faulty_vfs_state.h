// The settings and counters of a FaultyVfs, and the files that it gives to SQLite. Only for the
// sources of FaultyVfs.

#ifndef TESTS_SUPPORT_FAULTY_VFS_STATE_H_
#define TESTS_SUPPORT_FAULTY_VFS_STATE_H_

#include <errno.h>
#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/faulty_vfs.h"

namespace ranklog::testing {

struct FaultyVfs::State {
  sqlite3_vfs shim = {};
  sqlite3_vfs* real = nullptr;
  std::string registered_name;

  std::mutex mutex;  // the writer and the checkpoint may run on two threads
  int64_t writes = 0;
  int64_t syncs = 0;
  int64_t reads = 0;
  int64_t fail_write_at = 0;  // 0: never
  int64_t fail_sync_at = 0;
  int64_t fail_read_at = 0;
  int64_t freeze_at = 0;  // counts writes and syncs together
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
    int64_t offset;  // or the size after a truncation
    std::string before;
    std::string after;
    int64_t size_before;
  };
  std::map<std::string, std::vector<Change>> unsynced;  // by path

  // Returns SQLITE_OK, or the code with which SQLite's own VFS reports such an error.
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

// Makes `state->shim` a VFS whose files pass through `state` to those of `state->real`.
void PutInFront(FaultyVfs::State* state);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FAULTY_VFS_STATE_H_
