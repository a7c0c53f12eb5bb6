#include "trainer/model/autocast.h"

#include <ATen/autocast_mode.h>

#include "trainer/base/torch_compat.h"

namespace ranklog::trainer {

Autocast::Autocast(c10::DeviceType device, bool on) : device_(device), on_(on) {
  if (on_) compat::autocast::Switch(device_, true, at::kBFloat16);
}

Autocast::~Autocast() {
  if (!on_) return;
  at::autocast::clear_cache();  // its bfloat16 copies of the weights are outdated after an update
  compat::autocast::Switch(device_, false, at::kBFloat16);
}

}  // namespace ranklog::trainer
