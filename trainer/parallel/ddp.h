#ifndef TRAINER_PARALLEL_DDP_H_
#define TRAINER_PARALLEL_DDP_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "trainer/parallel/process_group.h"

namespace c10d {
class Reducer;
}

namespace ranklog::trainer {

// Data-parallel training. Gives all ranks rank 0's parameters. Then averages the gradients over the
// ranks during each backward pass, bucket by bucket, while the rest is still being computed. Every
// parameter must take part in every loss. In a group of one rank, all functions do nothing.
//
//   Ddp::NoSync accumulate(ddp, /*on=*/more_micro_batches_follow);
//   ddp.BeforeForward();
//   at::Tensor loss = ...;
//   ddp.BeforeBackward();
//   loss.backward();   // gradients are equal on all ranks afterwards, unless NoSync is on
//
// Not thread-safe. Throws what LibTorch throws, see ProcessGroup.
class Ddp {
 public:
  // Binds to these tensors: fill them before, or in place. `group` must outlive this object.
  Ddp(std::vector<at::Tensor> parameters, ProcessGroup& group);
  ~Ddp();

  void BeforeForward();
  void BeforeBackward();

  // While it exists and is on, gradients only accumulate on this rank.
  class NoSync {
   public:
    NoSync(Ddp& ddp, bool on) : ddp_(ddp), before_(ddp.sync_) { ddp.sync_ = before_ && !on; }
    ~NoSync() { ddp_.sync_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Ddp& ddp_;
    const bool before_;
  };

 private:
  ProcessGroup* const group_;  // outlives this object
  bool sync_ = true;
  // Shared with the gradient hooks; null in a group of one.
  std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_DDP_H_
