// The threads of gRPC, found in /proc.

#ifndef CLIENT_BASE_MARKED_THREADS_H_
#define CLIENT_BASE_MARKED_THREADS_H_

#include <signal.h>

namespace ranklog::internal {

// Marks the threads that the calling thread starts while it has this object, and the threads that
// those start. Have one during each use of gRPC. It also blocks the signals of the calling thread,
// apart from SIGTRAP.
class MarksNewThreads {
 public:
  MarksNewThreads();
  ~MarksNewThreads();
  MarksNewThreads(const MarksNewThreads&) = delete;
  MarksNewThreads& operator=(const MarksNewThreads&) = delete;

 private:
  sigset_t before_;
};

enum class MarkedThreads {
  kNone,  // none runs
  kSome,  // one runs, or may soon have the mark
  // None was found, but a thread has ended meanwhile. It may have started another, and the kernel
  // may have ended the list there.
  kUnsure,
  kUnknown,  // /proc cannot be read
};

// Examines all threads of this process. Takes about 20 µs for each. Does not throw.
MarkedThreads FindMarkedThreads();

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_MARKED_THREADS_H_
