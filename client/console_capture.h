// Reads what this process prints, by a process that outlives it: `ranklog console-reader`.
//
// stdout and stderr become pipes, or terminals where they were terminals. The reader writes what comes
// to where it went before, and logs it. If it dies, a thread of this process passes on what is in the
// pipes and undoes this.

#ifndef CLIENT_CONSOLE_CAPTURE_H_
#define CLIENT_CONSOLE_CAPTURE_H_

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/base/event.h"
#include "ranklog/settings.h"

namespace ranklog::internal {

// The capture of a process; there is at most one at a time. A forked child prints into its parent's,
// and must not call it.
class ConsoleCapture {
 public:
  // Starts the reader, which joins the run of `handle`, and redirects the descriptors 1 and 2.
  //   kNotFound             `ranklog` is not installed
  //   kFailedPrecondition   this process has a capture, or its stdout and stderr are closed
  //   kUnavailable          the reader cannot be started
  // The capture is never destroyed: its thread and the process's exit use it. Exit stops it.
  static absl::StatusOr<ConsoleCapture*> Start(const std::string& handle, const Settings& settings);
  // Undoes the redirection, and waits until the reader has written and logged everything, at most for
  // kStopPatience. Harmless if it was called before.
  void Stop();

 private:
  static constexpr std::chrono::seconds kStopPatience{2};

  struct Stream {
    int number = -1;  // 1 or 2
    int before = -1;  // a copy of the descriptor, as it was
    int reads = -1;   // the reader's end, for the time after the reader
  };

  ConsoleCapture() = default;
  // Starts the thread that waits for the reader's end.
  bool StartWatch();
  void Watch();
  void Restore();

  Stream streams_[2];
  bool one_ = false;           // stdout and stderr are the same file: one pipe for both
  struct stat captured_[2]{};  // what 1 and 2 are during the capture
  int control_ = -1;
  std::atomic<bool> restored_ = false;
  std::atomic<bool> done_ = false;  // the reader has answered, or has ended
  Event changed_;
  uint64_t generation_ = 0;
};

}  // namespace ranklog::internal

#endif  // CLIENT_CONSOLE_CAPTURE_H_
