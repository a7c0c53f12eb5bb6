// A short training of two ranks. train_rank.cc runs it, and train_reference_test.cc computes it.

#ifndef TESTS_TRAINER_TRAIN_EXAMPLE_H_
#define TESTS_TRAINER_TRAIN_EXAMPLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/data.h"
#include "trainer/options.h"

namespace ranklog::trainer {

constexpr int64_t kVocabulary = 50;
constexpr int64_t kWindows = 16;  // not a multiple of the windows of two ranks' batches
constexpr int64_t kStopStep = 3;  // of a training that stops and resumes: in the middle of an epoch

inline Tokens ExampleText(int64_t windows, int64_t seq_len, uint32_t state) {
  std::vector<uint8_t> text;
  for (int64_t i = 0; i <= windows * seq_len; ++i) {
    state = state * 1664525 + 1013904223;  // Numerical Recipes
    // Every window has different letters, so that the choice of windows matters.
    text.push_back((i / seq_len * 7 + (state >> 24) % 9) % kVocabulary);
  }
  return Tokens(std::move(text));
}

// An epoch has three batches per rank: a step of two micro-batches and a step of one. Clipping and
// decay are strong enough to show. Validation uses 32 of the 70 held-out windows.
inline Options ExampleOptions(const std::string& directory) {
  Options options;
  options.steps = 6;
  options.batch_size = 3;
  options.grad_accum = 2;
  options.seq_len = 12;
  options.lr = 1e-2;
  options.min_lr = 1e-3;
  options.warmup_steps = 2;
  options.weight_decay = 0.5;
  options.grad_clip = 0.5;
  options.val_every = 6;
  options.save_dir = directory;
  options.experiment_name = "out";
  options.save_every = 6;
  return options;
}

// The same, with all options that are off there.
inline Options OtherOptions(const std::string& directory) {
  Options options = ExampleOptions(directory);
  options.drop_last = true;
  options.pad_vocabulary = 64;
  options.bfloat16 = true;
  options.epochs = 6;  // of one step each
  return options;
}

inline Corpus ExampleCorpus() {
  const int64_t seq_len = ExampleOptions("").seq_len;
  return {.source = "example",
          .train = ExampleText(kWindows, seq_len, 1),
          .validation = ExampleText(70, seq_len, 2),
          .vocabulary = kVocabulary};
}

}  // namespace ranklog::trainer

#endif  // TESTS_TRAINER_TRAIN_EXAMPLE_H_
