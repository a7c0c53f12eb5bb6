// Which delivery a thread was at when it crashed the process, for the next process to read.

#ifndef SERVICE_PIPELINE_CRASH_MARKS_H_
#define SERVICE_PIPELINE_CRASH_MARKS_H_

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ranklog::pipeline {

struct CrashMark {
  int64_t run = 0;  // the store's id
  std::string kind;
  int signal = 0;
  std::string version;  // of the program that crashed
};

// Returns the marks of earlier processes for the store in `state_dir`, and removes them. From then
// on a crash of this process leaves its own: installs a handler for SIGSEGV, SIGBUS, SIGFPE, SIGILL
// and SIGABRT, which writes the mark of the crashing thread and passes the signal on to the handler
// before it, by default to the kernel, which ends the process and writes a core file as ever. A
// signal that another process sent leaves no mark, nor does SIGKILL or a power failure.
//
// The store is open, and the caller holds the state directory's lock. Call it again for another
// store, while no thread has an UnderWay. An error: there are no marks, and none will be left. The
// file is described in storage/schema.md.
absl::StatusOr<std::vector<CrashMark>> TakeCrashMarks(const std::string& state_dir);

// While it lives, a crash of its thread is marked as one of this delivery. One at a time per
// thread.
class UnderWay {
 public:
  // `worker`: a number of the thread's own, so that threads which crash together leave a mark each.
  UnderWay(size_t worker, int64_t run, const std::string& kind);
  ~UnderWay();
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  friend void OnCrash(int signal, siginfo_t* info, void* context);

  const size_t slot_;  // in the file
  const int64_t run_;
  char kind_[16] = {};
};

// Gives its thread a second stack for the handler: a stack that overflowed has no room for it.
class CrashStack {
 public:
  CrashStack();
  ~CrashStack();
  CrashStack(const CrashStack&) = delete;
  CrashStack& operator=(const CrashStack&) = delete;

 private:
  const std::unique_ptr<char[]> memory_;
  stack_t before_{};
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_CRASH_MARKS_H_
