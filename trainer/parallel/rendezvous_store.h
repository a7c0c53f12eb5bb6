// The store through which the ranks of a job meet.

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

// The pauses between two looks into the store: short at first, and few in a job of many ranks.
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

// A connection to the job's store, which this call serves if `serve`. A launcher's store has keys of
// earlier attempts. Rank 0's is new, and the agents of a job may count its attempts differently, as
// where one was started again itself. Throws what LibTorch throws.
StorePtr OpenStore(const Rendezvous& at, absl::Duration timeout, bool serve);

// The first connection. Rank 0 serves the store of a job that has no launcher.
//   kUnavailable  the store cannot be served or reached; the message says what to do
absl::StatusOr<StorePtr> ReachStore(const Rendezvous& at, absl::Duration timeout);

// Waits at most `timeout` until all ranks have connected. `comm` is the backend of this rank, "nccl"
// or "gloo". Returns that of rank 0.
//   kUnavailable         some ranks did not connect; the message names them
//   kFailedPrecondition  another process has this rank's number, or the ranks differ in their world
//                        size
absl::StatusOr<std::string> Meet(c10d::Store& store, const Rendezvous& at, const std::string& comm,
                                 absl::Duration timeout);

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_RENDEZVOUS_STORE_H_
