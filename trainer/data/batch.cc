#include "trainer/data/batch.h"

namespace ranklog::trainer {

Batch MakeBatch(const Tokens& text, const std::vector<size_t>& windows, int64_t seq_len,
                c10::Device device) {
  // Pinned, so that the copy to a GPU does not wait for the GPU.
  at::Tensor tokens = at::empty({static_cast<int64_t>(windows.size()), seq_len + 1},
                                at::TensorOptions(at::kLong).pinned_memory(device.is_cuda()));
  int64_t* out = tokens.data_ptr<int64_t>();
  for (const size_t window : windows) {
    text.Copy(window * seq_len, seq_len + 1, out);
    out += seq_len + 1;
  }
  tokens = tokens.to(device, /*non_blocking=*/true);
  return {tokens.slice(1, 0, seq_len), tokens.slice(1, 1, seq_len + 1)};
}

}  // namespace ranklog::trainer
