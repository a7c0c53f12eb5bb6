#ifndef TRAINER_TRAIN_H_
#define TRAINER_TRAIN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trainer/data.h"
#include "trainer/ddp.h"
#include "trainer/model.h"
#include "trainer/options.h"
#include "trainer/process_group.h"

namespace ranklog::trainer {

// What a step did, on this rank.
struct StepReport {
  int64_t step = 0;  // 1 .. Options::steps
  double loss = 0;   // mean over this rank's micro-batches before the step, nats per token
  double lr = 0;
  double grad_norm = 0;          // of the averaged gradients, before clipping
  double tokens_per_second = 0;  // over all ranks; validation does not count
  // After the step, see Validate(); only every Options::val_every steps, and at the last.
  std::optional<double> val_loss = {};
};

// Trains `model` for Options::steps steps as one rank of `group`, and calls `report` after each.
// Collective: all ranks must come with the same options and text. Throws what LibTorch throws: a
// lost rank, no memory.
void Train(const Options& options, const Corpus& corpus, Gpt& model, ProcessGroup& group,
           const std::function<void(const StepReport&)>& report);

// The mean loss over held-out text, the same on all ranks. Collective.
double Validate(const Gpt& model, const std::vector<uint8_t>& text, const Options& options,
                ProcessGroup& group);

}  // namespace ranklog::trainer

#endif  // TRAINER_TRAIN_H_
