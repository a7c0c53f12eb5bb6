#ifndef TRAINER_DATA_BATCH_H_
#define TRAINER_DATA_BATCH_H_

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/data/data.h"

namespace ranklog::trainer {

struct Batch {
  at::Tensor inputs;   // (batch, time), int64
  at::Tensor targets;  // (batch, time), int64: the input's next tokens
};

// The given windows, on `device`. A window has `seq_len` tokens and begins at window * seq_len.
Batch MakeBatch(const Tokens& text, const std::vector<size_t>& windows, int64_t seq_len,
                c10::Device device);

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_BATCH_H_
