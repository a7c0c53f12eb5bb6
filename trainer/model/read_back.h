#ifndef TRAINER_MODEL_READ_BACK_H_
#define TRAINER_MODEL_READ_BACK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace ranklog::trainer {

// Copies a step's numbers (loss, gradient norm) from the device to the host. at::Tensor::item()
// would wait for all queued work and leave the GPU idle. Instead, the copy into pinned memory is
// queued after the step, and is read when the next step is queued.
//
//   read_back.Push(step, at::stack({loss, norm}));
//   while (const auto done = read_back.Next()) Report(*done);   // GPU: the step before this one
//   ...
//   while (const auto done = read_back.Last()) Report(*done);   // before a checkpoint, and at the end
//
// On a CPU the numbers are available at once, and nothing is copied. Not thread-safe.
class ReadBack {
 public:
  struct Numbers {
    int64_t step = 0;
    std::vector<float> values;
  };

  // `lag`: how many steps may be queued after the one that is read. Default: one on a GPU, none on
  // a CPU.
  explicit ReadBack(c10::Device device, std::optional<size_t> lag = {});
  ~ReadBack();

  // `values`: (n), float32, on the device. Returns before they are computed.
  void Push(int64_t step, const at::Tensor& values);

  // The numbers of the oldest step, if `lag` newer ones were pushed. Waits for that step.
  std::optional<Numbers> Next();
  // The same without the lag. nullopt: all numbers were read.
  std::optional<Numbers> Last();

 private:
  struct Slot;

  const c10::Device device_;
  const size_t lag_;
  std::deque<std::unique_ptr<Slot>> pending_;
  std::vector<std::unique_ptr<Slot>> free_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_MODEL_READ_BACK_H_
