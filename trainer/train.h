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

// The results of a step on this rank.
struct StepReport {
  int64_t step = 0;   // 1 .. steps
  int64_t steps = 0;  // of the training
  double epoch = 0;   // after the step, see Plan::Epoch()
  double loss = 0;    // mean over this rank's micro-batches before the step, nats per token
  double lr = 0;
  int64_t tokens = 0;            // of the step, over all ranks
  double grad_norm = 0;          // of the averaged gradients, before clipping
  double tokens_per_second = 0;  // over all ranks; validation does not count
  // After the step, see Validate(). Only if Plan::Validates(step).
  std::optional<double> val_loss = {};
};

// How a training ended. On each rank the same.
enum class TrainEnd {
  kDone,       // the last step is done
  kRequested,  // stopped: a person asked for it on the run's page at its tracker
  kSignal,     // stopped: a rank received a signal; has precedence
};

// Trains a model as one rank of `group` from the start that `saver` restores, logs to `run`, and
// calls `observe` after each step. Stops after the last step, or after the step during which any
// rank received a signal, or learned that the run was asked to stop (Run::stop_requested()). A
// signal before training stops it before its first step. `lag`: see ReadBack; tests choose it.
//
// Collective: all ranks must call it with the same options and text. Throws what LibTorch throws
// for a lost rank or a lack of memory. Throws RankError if the checkpoint cannot be restored, if
// the last one cannot be written, or if the loss or gradient is not finite.
TrainEnd Train(const Options& options, const Corpus& corpus, ProcessGroup& group, Run& run,
               Saver& saver, const StopSignal& stop_signal,
               const std::function<void(const StepReport&)>& observe,
               std::optional<size_t> lag = {});

// The mean loss over held-out text, the same on all ranks. Collective.
double Validate(Gpt& model, const Tokens& text, const Options& options, ProcessGroup& group);

}  // namespace ranklog::trainer

#endif  // TRAINER_TRAIN_H_
