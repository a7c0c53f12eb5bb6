// The rings of the calling thread: one per run that it logged to, and more if one was too small.
// When the thread ends, each returns to its run. A `thread_local` object may log in its destructor.
// The rings that it takes then return after all such objects.
//
// A signal handler that logs may interrupt any of these calls. RunState uses WriterSearch to keep
// the handler from making such a call, too.

#ifndef CLIENT_RUN_THREAD_RINGS_H_
#define CLIENT_RUN_THREAD_RINGS_H_

#include <cstdint>
#include <memory>

#include "client/base/uncancelled.h"
#include "client/ring/ring.h"

namespace ranklog::internal {

class RunState;

// The run and ring that the current thread used last. Initial-exec TLS: a plain load without a
// call, also in a shared library.
struct ThreadCache {
  uint64_t token = 0;  // RunState::token_; 0: none
  RingWriter* writer = nullptr;
};
extern constinit thread_local ThreadCache thread_cache __attribute__((tls_model("initial-exec")));

// The thread's newest ring for the run with this token. Null if it has none.
std::shared_ptr<Ring> FindThreadRing(uint64_t token);

// From now on this is the thread's ring for the run.
void AddThreadRing(uint64_t token, std::weak_ptr<RunState> run, std::shared_ptr<Ring> ring);

// Drops the rings that the only thread of a forked child inherited. Touches nothing in them.
void ForgetThreadRings();

// The thread looks for a ring, and may make one, while this lives.
class WriterSearch {
 public:
  WriterSearch();
  ~WriterSearch();
  WriterSearch(const WriterSearch&) = delete;
  WriterSearch& operator=(const WriterSearch&) = delete;

  // True in a signal handler that interrupted the thread while it looked for a ring.
  static bool InProgress();

 private:
  const Uncancelled uncancelled_;  // a ring is made by system calls
};

}  // namespace ranklog::internal

#endif  // CLIENT_RUN_THREAD_RINGS_H_
