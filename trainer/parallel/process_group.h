#ifndef TRAINER_PARALLEL_PROCESS_GROUP_H_
#define TRAINER_PARALLEL_PROCESS_GROUP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/parallel/placement.h"
#include "trainer/parallel/rendezvous.h"

namespace c10d {
class ProcessGroup;
}

namespace ranklog::trainer {

struct GroupOptions {
  Placement placement = {};
  // How long a rank waits for the others: at the rendezvous, and in each collective. Must exceed
  // the longest step and checkpoint.
  absl::Duration timeout = absl::Seconds(120);
  // A group of one connects too, for a test on a machine with one GPU.
  bool connect_alone = false;
};

// The communication of a job's ranks: by Gloo, and between GPUs by NCCL. A group of one rank does
// not communicate, unless GroupOptions::connect_alone is set.
//
// Collective calls must come in the same order on all ranks, from one thread. They throw what
// LibTorch throws: within a second after another rank died, and after the timeout if a rank hangs.
// Blame() then names that rank.
class ProcessGroup {
 public:
  // Waits for the other ranks.
  //   kUnavailable         some ranks did not connect in time; the message names them. Or the store
  //                        cannot be served or reached; the message contains advice
  //   kFailedPrecondition  this rank uses NCCL and rank 0 Gloo, or the reverse; another process has
  //                        this rank's number; the ranks differ in their world size
  static absl::StatusOr<ProcessGroup> Join(const Rendezvous& rendezvous,
                                           const GroupOptions& options = {});
  static ProcessGroup Alone(const Placement& placement = {});
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;
  // Does not wait for the others: see Leave().
  ~ProcessGroup();

  int rank() const;
  int world_size() const;
  // The device of this rank's computations and of the model's tensors.
  c10::Device device() const;

  // In place. `values` is a dense tensor of the same shape on all ranks, on device() or the CPU.
  void Sum(at::Tensor& values);
  void Max(at::Tensor& values);
  // (ranks, n): row r is `mine` of rank r, a tensor of n numbers on the CPU.
  at::Tensor Gather(const at::Tensor& mine);
  // Whether `here` is true on any rank.
  bool Any(bool here);
  // The largest `here` of all ranks.
  int Largest(int here);

  // Waits until all ranks have called it.
  void Barrier();

  // Broadcasts a text that rank 0 computes. Not a collective: the other ranks wait while rank 0 is
  // alive. They throw RankError if it fails, or has no heartbeat for the timeout.
  std::string FromRankZero(const std::string& key, const std::function<std::string()>& make);

  // Ends the communication after a barrier, so that rank 0, which may serve the store, does not
  // leave first. Call it last, and only after success.
  void Leave();

  // Counts a collective of c10d_group(), for Blame().
  void CountCollective();

  // See PeerWatch.
  void ReportFailure(const std::string& error) const;
  std::string Blame(const std::string& error) const;

  // Null in a group of one that did not connect.
  c10d::ProcessGroup* c10d_group() const;

 private:
  struct Impl;
  explicit ProcessGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_PROCESS_GROUP_H_
