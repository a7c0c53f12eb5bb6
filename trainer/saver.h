#ifndef TRAINER_SAVER_H_
#define TRAINER_SAVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranklog/settings.h"
#include "trainer/checkpoint_directory.h"
#include "trainer/data.h"
#include "trainer/options.h"
#include "trainer/plan.h"
#include "trainer/process_group.h"

namespace ranklog::trainer {

// Where a training starts, and its checkpoints. Each rank has one. Rank 0's has the directory and
// writes; the others read what rank 0 chose, so all nodes must see the directory.
//
// Not thread-safe. Throws what LibTorch throws.
class Saver {
 public:
  // Opens {save_dir}/{experiment_name}, unless there is none or --save-every 0. Reads the newest
  // checkpoint with --resume, else the weights of --init-from. Without --resume, sets the
  // checkpoints of an earlier run aside, and tells so. Collective.
  //   kInvalidArgument  the file of --init-from is no checkpoint
  //   others            see CheckpointDirectory; all ranks get rank 0's error
  static absl::StatusOr<Saver> Open(const Options& options, ProcessGroup& group);

  // With --resume, lets the run of the log go on: that of the checkpoint, else that of the
  // experiment. A new run stays a new one.
  void ContinueRun(Settings& settings) const;

  // Fills model, optimizer, sampler and random state with what the training starts from. Returns the
  // steps that are done, 0 for a new training.
  //   kInvalidArgument  the checkpoint is of another plan, corpus, model or number of ranks; the
  //                     message names what differs
  absl::StatusOr<int64_t> Restore(const Plan& plan, const Corpus& corpus, torch::nn::Module& model,
                                  torch::optim::AdamW& optimizer, EpochSampler& sampler);

  // Whether a checkpoint is to be written after `step`, one of `steps`.
  bool Due(int64_t step, int64_t steps) const;

  // Writes a checkpoint, between two barriers: `checkpoint` is complete but for the facts and the
  // random states of the ranks. Collective. If rank 0 cannot write it, it says so, and the training
  // goes on: the older checkpoints are there. Of the `last` one all ranks throw std::runtime_error.
  void Save(Checkpoint checkpoint, bool last);

 private:
  Saver(const Options& options, ProcessGroup& group) : options_(&options), group_(&group) {}
  // What rank 0 found, as a text for the others.
  absl::StatusOr<std::string> Choose();

  const Options* options_;                        // of the caller, who keeps it
  ProcessGroup* group_;                           // likewise
  std::optional<CheckpointDirectory> directory_;  // of rank 0
  std::optional<Checkpoint> start_;               // until Restore()
  bool resumed_ = false;                          // start_ is a checkpoint of this experiment
  bool new_run_ = true;
  std::string run_id_;
  std::map<std::string, std::string> facts_;  // what the training is made of, by flag
};

}  // namespace ranklog::trainer

#endif  // TRAINER_SAVER_H_
