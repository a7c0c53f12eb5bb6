#ifndef TRAINER_CHECKPOINT_CHECKPOINT_H_
#define TRAINER_CHECKPOINT_CHECKPOINT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/sampler.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class AdamW;
}

namespace ranklog::trainer {

// The complete state of a training. trainer/checkpoint/checkpoint.md describes its file.
// Model, optimizer and sampler are the same on all ranks, so one file serves all of them.
struct Checkpoint {
  std::string run_id = {};         // of the log, which continues as well
  std::string experiment = {};     // see RunFile; empty: an older version wrote the checkpoint
  std::string experiment_id = {};  // likewise
  int64_t step = 0;                // completed optimizer steps; the schedule follows from it
  // The loss of that step before its update: nats per token, the mean over the ranks. NaN: unknown.
  double train_loss = std::numeric_limits<double>::quiet_NaN();
  SamplerPosition sampler = {};
  // The options of its training, by the flags' names.
  std::map<std::string, std::string> options = {};
  at::Tensor random = {};                          // (ranks, bytes), uint8: see RandomState()
  std::map<std::string, at::Tensor> tensors = {};  // of model and optimizer: see AddState()

  int64_t world_size() const { return random.size(0); }
};

// Writes it to `path`, completely or not at all. Errors: see WriteSafeTensors().
absl::Status WriteCheckpoint(const std::string& path, const Checkpoint& checkpoint);

// Reads it into memory; the tensors are on the CPU.
//   kDataLoss            it was truncated or changed
//   kInvalidArgument     it is not a checkpoint of this program
//   kFailedPrecondition  a newer version wrote it
//   others               it cannot be read
absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& path);

// Reads only the train loss. NaN: an older version wrote the file, or it cannot be read.
double ReadTrainLoss(const std::string& path);

// Adds the parameters of `model` and the state of `optimizer` for each. Makes no copies: they must
// not change until the checkpoint is written.
void AddState(const torch::nn::Module& model, torch::optim::AdamW& optimizer,
              Checkpoint& checkpoint);

// The name of a tensor that contains infinities or NaN; empty if all are finite. Costs a sum of
// each tensor. A tensor whose sum overflows counts as not finite.
std::string FindNotFinite(const Checkpoint& checkpoint);

// Fills the parameters in place, so that objects bound to them stay valid.
//   kInvalidArgument  the model has other parameters; the message names one
absl::Status RestoreModel(const Checkpoint& checkpoint, torch::nn::Module& model);

// Restores the state of `optimizer`. The same errors.
absl::Status RestoreOptimizer(const Checkpoint& checkpoint, const torch::nn::Module& model,
                              torch::optim::AdamW& optimizer);

// The state of this process's random generators, the CPU's and that of `device`: (bytes), uint8.
at::Tensor RandomState(at::Device device);
// kInvalidArgument: the state is of another LibTorch, or of another kind of device.
absl::Status SetRandomState(const at::Tensor& state, at::Device device);

}  // namespace ranklog::trainer

#endif  // TRAINER_CHECKPOINT_CHECKPOINT_H_
