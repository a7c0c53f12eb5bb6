#ifndef TRAINER_MODEL_AUTOCAST_H_
#define TRAINER_MODEL_AUTOCAST_H_

#include <c10/core/DeviceType.h>

namespace ranklog::trainer {

// While it lives and is on, matrix products on `device` take bfloat16 inputs, and functions that
// need the precision stay in float32: PyTorch's torch.autocast. Parameters, gradients and what goes
// over the network stay float32. bfloat16 has float32's range, so losses need no scaling.
//
// Surround the forward pass only. Of this thread; not to be nested.
class Autocast {
 public:
  Autocast(c10::DeviceType device, bool on);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool on_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_MODEL_AUTOCAST_H_
