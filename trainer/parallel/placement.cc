#include "trainer/parallel/placement.h"

#include <cstdlib>
#include <exception>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#ifdef USE_C10D_NCCL
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace ranklog::trainer {
namespace {

constexpr const char* kNotBuilt =
    "this build has no NCCL. Build with -DCMAKE_PREFIX_PATH=<torch>/share/cmake of a PyTorch that "
    "has CUDA";

}  // namespace

Gpus FindGpus() {
  Gpus gpus;
#ifdef USE_C10D_NCCL
  gpus.built = true;
  try {
    gpus.count = c10::cuda::device_count_ensure_non_zero();
  } catch (const std::exception& error) {
    // Advice and a backtrace follow the first sentence.
    const std::string_view text = error.what();
    gpus.error = text.substr(0, text.find_first_of(".\n"));
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  gpus.own = visible != nullptr && gpus.count == 1;
#endif
  return gpus;
}

absl::StatusOr<int> RanksOfGpus(const Gpus& gpus) {
  if (gpus.count > 0) return gpus.count;
  return absl::FailedPreconditionError(absl::StrCat(
      "--nproc-per-node gpu: ", gpus.built ? gpus.error + ". Check nvidia-smi" : kNotBuilt,
      ", or give the number of ranks"));
}

absl::StatusOr<Placement> ChoosePlacement(Comm comm, int local_rank, const Gpus& gpus) {
  if (comm == Comm::kGloo || (comm == Comm::kAuto && !gpus.built)) return Placement{};
  if (!gpus.built) {
    return absl::FailedPreconditionError(
        absl::StrCat("--comm nccl: ", kNotBuilt, ", or use --comm gloo"));
  }
  if (gpus.count == 0) {
    if (comm == Comm::kAuto) return Placement{.note = gpus.error};
    return absl::FailedPreconditionError(
        absl::StrCat("--comm nccl: ", gpus.error, ". Check nvidia-smi, or use --comm gloo"));
  }
  if (local_rank >= gpus.count && !gpus.own) {
    return absl::FailedPreconditionError(absl::StrCat(
        "local rank ", local_rank, " has no GPU: this process sees ", gpus.count,
        ", and NCCL needs one per rank. Start fewer ranks per node, or use --comm gloo"));
  }
  const int index = gpus.own ? 0 : local_rank;
  return Placement{.nccl = true,
                   .device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index))};
}

}  // namespace ranklog::trainer
