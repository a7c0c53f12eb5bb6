// A few steps of training, and a validation, for several ranks or one process.

#ifndef TESTS_TRAINER_GRADIENT_EXAMPLE_H_
#define TESTS_TRAINER_GRADIENT_EXAMPLE_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/options.h"

namespace ranklog::trainer {

constexpr int64_t kSequenceLength = 16;
constexpr int64_t kMicroBatch = 2;
constexpr int64_t kMicroBatches = 3;  // per rank and step
constexpr int64_t kSteps = 3;
constexpr double kLearningRate = 0.1;

inline GptShape ExampleShape() { return ShapeOf("tiny", kSequenceLength, /*vocabulary=*/256); }

// The mean loss over sequences first .. first + count - 1 of a step.
inline at::Tensor ExampleLoss(Gpt& model, int64_t step, int64_t first, int64_t count) {
  at::Tensor tokens = at::empty({count, kSequenceLength + 1}, at::kLong);
  int64_t* token = tokens.data_ptr<int64_t>();
  for (int64_t sequence = first; sequence < first + count; ++sequence) {
    for (int64_t i = 0; i <= kSequenceLength; ++i)
      *token++ = (sequence * 37 + i * i * 11 + step * 5) % 256;
  }
  tokens = tokens.to(model.parameters()[0].device());
  return model.Loss(tokens.slice(1, 0, kSequenceLength), tokens.slice(1, 1, kSequenceLength + 1));
}

// A validation of five sequences, which two ranks cannot share evenly. Each is far from the others.
inline Options ValidationOptions() {
  Options options;
  options.seq_len = kSequenceLength;
  options.batch_size = 1;
  return options;
}
inline std::vector<uint8_t> ValidationText() {
  std::vector<uint8_t> text;
  for (int64_t i = 0; i <= 5 * kSequenceLength; ++i) {
    text.push_back(static_cast<uint8_t>(i / kSequenceLength * 50 + i % 7 * (i / kSequenceLength)));
  }
  return text;
}

inline void Descend(Gpt& model) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& value : model.parameters()) {
    value.sub_(value.grad() * kLearningRate);
    value.grad().zero_();
  }
}

inline std::vector<float> Gradients(Gpt& model) {
  std::vector<float> all;
  for (const at::Tensor& value : model.parameters()) {
    const at::Tensor gradient = value.grad().cpu().contiguous();
    all.insert(all.end(), gradient.data_ptr<float>(),
               gradient.data_ptr<float>() + gradient.numel());
  }
  return all;
}

inline void WriteFloats(const std::string& path, const std::vector<float>& values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

inline std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<float> values(file ? static_cast<size_t>(file.tellg()) / sizeof(float) : 0);
  file.seekg(0).read(reinterpret_cast<char*>(values.data()), values.size() * sizeof(float));
  return values;
}

}  // namespace ranklog::trainer

#endif  // TESTS_TRAINER_GRADIENT_EXAMPLE_H_
