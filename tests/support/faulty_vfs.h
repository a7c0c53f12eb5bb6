// A disk that fails when it is told to: a SQLite VFS in front of the real one.

#ifndef TESTS_SUPPORT_FAULTY_VFS_H_
#define TESTS_SUPPORT_FAULTY_VFS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ranklog::testing {

// Registered with SQLite under name() from construction on. Files opened through it must be closed
// before it goes. The shared memory of SQLite's log index is passed through and
// never fails.
class FaultyVfs {
 public:
  FaultyVfs();
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  const char* name() const;

  // The n-th write from now on (1: the next) fails with this errno, and all after it until Heal().
  void FailWrites(int64_t n, int error);
  // The same for syncs, and for reads.
  void FailSyncs(int64_t n, int error);
  void FailReads(int64_t n, int error);
  // A write that fails stores its first half all the same.
  void TearWrites(bool tear);
  void Heal();

  // Kills the process at the n-th write or sync from now on: that one, which may be torn, and all
  // after it fail and change nothing, until Thaw(). What was written stays.
  void FreezeAt(int64_t n);
  bool frozen() const;
  void Thaw();

  // Cuts the power: from now on every write and sync fails and changes nothing. Once all files are
  // closed, LoseUnsynced() puts back what each file held at its last sync. Of the writes since then
  // those stay for which `keeps`, if there is one, says so: a disk writes in any order.
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
