// A disk that fails when it is told to: a SQLite VFS in front of the real one.

#ifndef TESTS_SUPPORT_FAULTY_VFS_H_
#define TESTS_SUPPORT_FAULTY_VFS_H_

#include <cstdint>
#include <memory>
#include <string>

namespace ranklog::testing {

// Registered with SQLite under name() from construction on. Files opened through it must be closed
// before it goes; one at a time. The shared memory of SQLite's log index is passed through and
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
  // The same for syncs.
  void FailSyncs(int64_t n, int error);
  void Heal();

  // Cuts the power: from now on every write and sync fails and changes nothing. Once all files are
  // closed, LoseUnsynced() puts back what each file held at its last sync.
  void CutPower();
  void LoseUnsynced();

  int64_t writes() const;
  int64_t syncs() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FAULTY_VFS_H_
