#include "trainer/model/read_back.h"

#include <ATen/ATen.h>

#include <utility>

#ifdef USE_C10D_NCCL
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#endif

namespace ranklog::trainer {

// The numbers of a step during their copy.
struct ReadBack::Slot {
  int64_t step = 0;
  at::Tensor host;  // (n), float32; pinned for a copy from a GPU
#ifdef USE_C10D_NCCL
  at::cuda::CUDAEvent copied{cudaEventDisableTiming | cudaEventBlockingSync};
#endif
};

ReadBack::ReadBack(c10::Device device, std::optional<size_t> lag)
    : device_(device), lag_(lag.value_or(device.is_cuda() ? 1 : 0)) {}
ReadBack::~ReadBack() = default;

void ReadBack::Push(int64_t step, const at::Tensor& values) {
  if (free_.empty()) free_.push_back(std::make_unique<Slot>());
  std::unique_ptr<Slot> slot = std::move(free_.back());
  free_.pop_back();
  slot->step = step;
  if (!device_.is_cuda()) {
    slot->host = values.detach().contiguous();
  } else {
#ifdef USE_C10D_NCCL
    if (!slot->host.defined())
      slot->host =
          at::empty(values.sizes(), at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
    slot->host.copy_(values.detach(), /*non_blocking=*/true);
    slot->copied.record(at::cuda::getCurrentCUDAStream(device_.index()));
#endif
  }
  pending_.push_back(std::move(slot));
}

std::optional<ReadBack::Numbers> ReadBack::Next() {
  return pending_.size() > lag_ ? Last() : std::nullopt;
}

std::optional<ReadBack::Numbers> ReadBack::Last() {
  if (pending_.empty()) return std::nullopt;
  std::unique_ptr<Slot> slot = std::move(pending_.front());
  pending_.pop_front();
#ifdef USE_C10D_NCCL
  if (device_.is_cuda()) slot->copied.synchronize();
#endif
  const float* values = slot->host.data_ptr<float>();
  Numbers numbers{slot->step, {values, values + slot->host.numel()}};
  free_.push_back(std::move(slot));
  return numbers;
}

}  // namespace ranklog::trainer
