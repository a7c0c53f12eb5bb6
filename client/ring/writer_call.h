// A call of a thread that writes to its ring.

#ifndef CLIENT_RING_WRITER_CALL_H_
#define CLIENT_RING_WRITER_CALL_H_

#include <atomic>

#include "client/ring/ring_writer.h"

namespace ranklog::internal {

// RunState::Close() waits until the call ends.
class WriterCall {
 public:
  // True if the thread is already in such a call, which a signal handler interrupted. A second call
  // would write into a half-written record.
  static bool IsInterrupted(const RingWriter& writer) {
    return writer.busy.load(std::memory_order_relaxed);
  }

  // Requires that no other call of the thread is in progress.
  explicit WriterCall(RingWriter* writer) : writer_(writer) {
    writer_->busy.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // see RunState::Close()
  }
  ~WriterCall() { writer_->busy.store(false, std::memory_order_release); }
  WriterCall(const WriterCall&) = delete;
  WriterCall& operator=(const WriterCall&) = delete;

 private:
  RingWriter* const writer_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_WRITER_CALL_H_
