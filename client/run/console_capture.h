// Reads what this process prints, by a process that outlives it: `ranklog console-reader`.
//
// stdout and stderr become pipes, or terminals where they were terminals. The reader writes what comes
// to where it went before, and logs it. If it dies, a thread of this process passes on what is in the
// pipes and undoes this.

#ifndef CLIENT_RUN_CONSOLE_CAPTURE_H_
#define CLIENT_RUN_CONSOLE_CAPTURE_H_

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "client/base/event.h"
#include "ranklog/settings.h"

namespace ranklog::internal {

// The capture of a process; there is at most one at a time. A forked child prints into its parent's,
// and must not call it.
class ConsoleCapture {
 public:
  // Starts the reader, which joins the run of `handle`, and redirects the descriptors 1 and 2 once it is
  // ready, which takes some 50 ms.
  //   kNotFound             `ranklog` is not installed
  //   kFailedPrecondition   this process has a capture, or its stdout and stderr are closed
  //   kUnavailable          the reader does not start
  // `on_loss` is called on the thread, once, if the reader dies during the capture.
  // The capture is never destroyed: its thread and the process's exit use it. Exit stops it.
  static absl::StatusOr<ConsoleCapture*> Start(const std::string& handle, const Settings& settings,
                                               std::function<void()> on_loss);
  // Closes what a forked child has of its parent's capture, except 1 and 2: a child that outlives its
  // parent must not keep the reader from seeing the parent's end. For the fork handler.
  static void CloseInChild();
  // Undoes the redirection, and waits until the reader has written and logged everything, at most for
  // kStopPatience. Harmless if it was called before.
  void Stop();

 private:
  static constexpr std::chrono::seconds kStopPatience{10};

  struct Stream {
    int before = -1;  // a copy of the descriptor, as it was
    int reads = -1;   // the reader's end, for the time after the reader
  };

  ConsoleCapture() = default;
  // Starts the thread that waits for the reader's end.
  bool StartWatch();
  void Watch();
  // Passes on what is in the pipes. `to_end`: until nobody can write to them any more.
  void PassOn(bool to_end);
  void Restore();

  Stream streams_[2];          // of stdout and stderr
  bool one_ = false;           // stdout and stderr are the same file: the first is for both
  struct stat captured_[2]{};  // what 1 and 2 are during the capture
  int control_ = -1;
  std::atomic<bool> restored_ = false;
  std::atomic<bool> done_ = false;  // the reader has answered, or has ended
  Event changed_;
  std::atomic<bool> stopping_ = false;
  std::function<void()> on_loss_;
  uint64_t generation_ = 0;
};

}  // namespace ranklog::internal

#endif  // CLIENT_RUN_CONSOLE_CAPTURE_H_
