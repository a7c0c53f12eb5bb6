#ifndef TRAINER_MODEL_AUTOCAST_H_
#define TRAINER_MODEL_AUTOCAST_H_

#include <c10/core/DeviceType.h>

namespace ranklog::trainer {

// PyTorch's torch.autocast as a scope. While it is on, matrix products on `device` use bfloat16
// inputs. Functions that need more precision stay in float32. Parameters, gradients and
// communication stay float32. bfloat16 has float32's range, so losses need no scaling.
//
// Surround the forward pass only. Affects the calling thread; do not nest.
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
