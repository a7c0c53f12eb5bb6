#ifndef TRAINER_PARALLEL_PLACEMENT_H_
#define TRAINER_PARALLEL_PLACEMENT_H_

#include <c10/core/Device.h>

#include <string>

#include "absl/status/statusor.h"

namespace ranklog::trainer {

// The communication backend, which determines the device: NCCL on GPUs, Gloo on CPUs.
enum class Comm { kAuto, kGloo, kNccl };

// The GPUs that this process may use.
struct Gpus {
  bool built = false;  // LibTorch has CUDA and NCCL
  int count = 0;
  std::string error = {};  // the reason if count is 0
  bool own = false;        // CUDA_VISIBLE_DEVICES gives this process an exclusive GPU
};

// Asks the CUDA driver, without reserving memory on a GPU.
Gpus FindGpus();

// Returns how many ranks --nproc-per-node gpu starts: one for each GPU. Pure.
//   kFailedPrecondition  no GPU is usable; the message contains the reason
absl::StatusOr<int> RanksOfGpus(const Gpus& gpus);

// The device and the backend of a rank.
struct Placement {
  bool nccl = false;  // else Gloo
  c10::Device device = c10::kCPU;
  std::string note = {};  // why `auto` did not choose a GPU; empty if the build has no CUDA
};

// Pure. `auto` chooses NCCL if there is a GPU, else Gloo.
//   kFailedPrecondition  `nccl` without a usable GPU, or more ranks on this node than GPUs: NCCL
//                        needs one per rank
absl::StatusOr<Placement> ChoosePlacement(Comm comm, int local_rank, const Gpus& gpus);

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_PLACEMENT_H_
