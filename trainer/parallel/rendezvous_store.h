// The store that connects the ranks of a job.

#ifndef TRAINER_PARALLEL_RENDEZVOUS_STORE_H_
#define TRAINER_PARALLEL_RENDEZVOUS_STORE_H_

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/parallel/rendezvous.h"

namespace ranklog::trainer {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

// The pauses between two reads of the store. They double from 5 to 500 ms, so a small job starts
// fast, and the ranks of a large job read seldom.
class Pauses {
 public:
  void Wait() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, std::chrono::milliseconds(500));
  }

 private:
  std::chrono::milliseconds next_{5};
};

// The prefix of the keys of an attempt in a launcher's store, as in torchrun's.
std::string AttemptPrefix(const std::string& attempt);

// A connection to the job's store; with `serve`, this call also serves the store. In a launcher's
// store, the keys have the prefix of the attempt, because keys of earlier attempts remain. A store
// of rank 0 is new, and its keys have no prefix. The agents of a job may count attempts
// differently, for example after a restart of one agent. Throws what LibTorch throws.
StorePtr OpenStore(const Rendezvous& at, absl::Duration timeout, bool serve);

// The first connection. Rank 0 serves the store if no launcher does.
//   kUnavailable  the store cannot be served or reached; the message contains advice
absl::StatusOr<StorePtr> ReachStore(const Rendezvous& at, absl::Duration timeout);

// Waits at most `timeout` until all ranks have connected. `comm` is the backend of this rank,
// "nccl" or "gloo". Returns the backend of rank 0.
//   kUnavailable         some ranks did not connect; the message names them
//   kFailedPrecondition  another process has this rank's number, or the ranks differ in their world
//                        size
absl::StatusOr<std::string> Meet(c10d::Store& store, const Rendezvous& at, const std::string& comm,
                                 absl::Duration timeout);

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_RENDEZVOUS_STORE_H_
