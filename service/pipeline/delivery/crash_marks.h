// Records the delivery that a thread was working on when it crashed the process, for the next
// process to read.

#ifndef SERVICE_PIPELINE_DELIVERY_CRASH_MARKS_H_
#define SERVICE_PIPELINE_DELIVERY_CRASH_MARKS_H_

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ranklog::pipeline {

struct CrashMark {
  int64_t run = 0;  // id in the store
  std::string kind;
  int signal = 0;
  std::string version;  // of the program that crashed
};

// Returns the marks that earlier processes left for the store in `state_dir`, and removes them.
// From then on, a crash of this process leaves a mark.
//
// Installs a handler for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT. The handler writes the mark
// of the crashing thread and passes the signal to the previous handler. By default that is the
// kernel, which ends the process and writes a core file. Signals sent by other processes, SIGKILL
// and power failures leave no mark.
//
// The store must be open, and the caller must hold the lock of the state directory. May be called
// again for another store, while no thread has a DeliveryInProgress. After an error there are no
// marks, and no mark will be left. storage/schema.md describes the file.
absl::StatusOr<std::vector<CrashMark>> TakeCrashMarks(const std::string& state_dir);

// While a DeliveryInProgress exists, a crash of its thread is marked as a crash of this delivery.
// One at a time per thread.
class DeliveryInProgress {
 public:
  // `worker` must be unique for each thread, so that threads that crash together leave one mark
  // each.
  DeliveryInProgress(size_t worker, int64_t run, const std::string& kind);
  ~DeliveryInProgress();
  DeliveryInProgress(const DeliveryInProgress&) = delete;
  DeliveryInProgress& operator=(const DeliveryInProgress&) = delete;

 private:
  friend void OnCrash(int signal, siginfo_t* info, void* context);

  const size_t slot_;  // slot in the file
  const int64_t run_;
  char kind_[16] = {};
};

// Gives its thread a separate stack for the handler, because an overflowed stack has no room for
// it.
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

#endif  // SERVICE_PIPELINE_DELIVERY_CRASH_MARKS_H_
