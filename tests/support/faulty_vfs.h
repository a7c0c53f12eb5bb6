// A disk that fails on demand: a SQLite VFS in front of the real one.

#ifndef TESTS_SUPPORT_FAULTY_VFS_H_
#define TESTS_SUPPORT_FAULTY_VFS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ranklog::testing {

// Registered with SQLite under name() from construction on. Close all files opened through it
// before its destruction. It passes SQLite's shared memory (the log index) through; that never
// fails.
class FaultyVfs {
 public:
  FaultyVfs();
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  const char* name() const;

  // From the n-th write from now on (1: the next), writes fail with this errno until Heal().
  void FailWrites(int64_t n, int error);
  // The same for syncs and for reads.
  void FailSyncs(int64_t n, int error);
  void FailReads(int64_t n, int error);
  // If true, a failing write still stores its first half.
  void TearWrites(bool tear);
  void Heal();

  // Simulates the death of the process at the n-th write or sync from now on. That one, which may
  // be torn, and all later ones fail and change nothing, until Thaw(). Earlier writes stay.
  void FreezeAt(int64_t n);
  bool frozen() const;
  void Thaw();

  // Cuts the power: from now on, every write and sync fails and changes nothing. After all files
  // are closed, LoseUnsynced() restores each file's content of its last sync. If `keeps` is given,
  // later writes for which it returns true stay too, since a disk writes in any order.
  void CutPower();
  void LoseUnsynced(const std::function<bool()>& keeps = nullptr);

  int64_t writes() const;
  int64_t syncs() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FAULTY_VFS_H_
