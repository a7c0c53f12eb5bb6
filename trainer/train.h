#ifndef TRAINER_TRAIN_H_
#define TRAINER_TRAIN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ranklog/ranklog.h"
#include "trainer/base/stop_signal.h"
#include "trainer/data/data.h"
#include "trainer/model/model.h"
#include "trainer/options.h"
#include "trainer/parallel/process_group.h"
#include "trainer/saver.h"

namespace ranklog::trainer {

// What a step did, on this rank.
struct StepReport {
  int64_t step = 0;   // 1 .. steps
  int64_t steps = 0;  // of the training
  double epoch = 0;   // after the step, see Plan::Epoch()
  double loss = 0;    // mean over this rank's micro-batches before the step, nats per token
  double lr = 0;
  int64_t tokens = 0;            // of the step, over all ranks
  double grad_norm = 0;          // of the averaged gradients, before clipping
  double tokens_per_second = 0;  // over all ranks; validation does not count
  // After the step, see Validate(). Only where Plan::Validates(step).
  std::optional<double> val_loss = {};
};

// Trains a model as one rank of `group` from where `saver` says, logs to `run`, and calls `observe`
// after each step. Ends after the last step, or after that in which `stop_signal` of a rank came;
// before the first one, if it came earlier. True: the last step is done.
// Collective: all ranks must come with the same options and text. Throws what LibTorch throws: a
// lost rank, no memory; and std::runtime_error where the training cannot go on from its checkpoint,
// or cannot write its last one, or its loss or gradient is no longer a finite number.
bool Train(const Options& options, const Corpus& corpus, ProcessGroup& group, Run& run,
           Saver& saver, const StopSignal& stop_signal,
           const std::function<void(const StepReport&)>& observe);

// The mean loss over held-out text, the same on all ranks. Collective.
double Validate(Gpt& model, const Tokens& text, const Options& options, ProcessGroup& group);

}  // namespace ranklog::trainer

#endif  // TRAINER_TRAIN_H_
