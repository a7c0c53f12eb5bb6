#ifndef TRAINER_SAVER_H_
#define TRAINER_SAVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranklog/settings.h"
#include "trainer/checkpoint/checkpoint_directory.h"
#include "trainer/checkpoint/run_file.h"
#include "trainer/options.h"
#include "trainer/parallel/process_group.h"
#include "trainer/plan.h"
#include "trainer/start_check.h"

namespace ranklog::trainer {

// What to do about weights that are no longer finite. The newest checkpoint may be finite, but spoilt.
inline constexpr char kAfterDivergence[] =
    "lower --lr and continue from the newest checkpoint with --resume; if that diverges too, start "
    "from an older checkpoint with --init-from, with a lower --lr";

// Where a training starts, and its checkpoints. Each rank has one. Rank 0's has the directory and
// writes; the others read what rank 0 chose, so all nodes must see the directory.
//
// Not thread-safe. Throws what LibTorch throws.
class Saver {
 public:
  // Opens {save_dir}/{experiment_name}, and reads what the training starts from: the newest
  // checkpoint with --resume, else the weights of --init-from. All of it is checked before anything
  // changes. Then, without --resume, sets the checkpoints of an earlier training aside, and says so.
  // Collective.
  //   kAborted          rank 0 failed; the message has its reason
  //   kInvalidArgument  the file is not a checkpoint of this program
  //   others            see CheckResume(), CheckInitFrom() and CheckpointDirectory
  // Throws std::runtime_error where another rank cannot read the file.
  static absl::StatusOr<Saver> Open(const Options& options, const Plan& plan, Facts facts,
                                    ProcessGroup& group);

  // Sets the run of this start, see ChooseRun(): with --resume the run of the log goes on. Otherwise
  // it is a new one, whatever RANKLOG_RESUME and Slurm's requeue count say. So rank 0 gives each new
  // run an id of its own.
  void ContinueRun(Settings& settings) const;

  // Keeps the id that the run really has, for the next start. On rank 0, once a daemon has answered;
  // the other ranks do nothing.
  void SettleRun(const std::string& run_id);

  // Fills model, optimizer, sampler and random state with what the training starts from. Returns the
  // steps that are done, 0 for a new training.
  //   kInvalidArgument  the file does not fit; the message names a tensor
  absl::StatusOr<int64_t> Restore(torch::nn::Module& model, torch::optim::AdamW& optimizer,
                                  EpochSampler& sampler);

  // Whether it writes checkpoints: there is a --save-dir, and --save-every is not 0.
  bool saves() const;

  // Whether a checkpoint of this training is there.
  bool has_checkpoint() const { return saved_step_ > 0; }

  // Whether a checkpoint is to be written after `step`, one of `steps`.
  bool Due(int64_t step, int64_t steps) const;

  // Writes a checkpoint, between two barriers: `checkpoint` is complete but for the facts and the
  // random states of the ranks. Collective. If rank 0 cannot write it, it says so, and the training
  // goes on: the older checkpoints are there. Of the `last` one all ranks throw RankError. Weights
  // that are no longer finite are not saved: all ranks throw RankError.
  void Save(Checkpoint checkpoint, bool last);

 private:
  Saver(const Options& options, const Plan& plan, Facts facts, ProcessGroup& group)
      : options_(&options), plan_(plan), facts_(std::move(facts)), group_(&group) {}
  // What rank 0 found, as a text for the others.
  absl::StatusOr<std::string> Choose();
  absl::Status ResumeFrom(CheckpointDirectory::Found found);
  void ChooseRunOfStart(const std::string& path);
  absl::Status PrepareDirectory();

  const Options* options_;  // of the caller, who keeps it
  Plan plan_;
  Facts facts_;                                   // for the checkpoints
  ProcessGroup* group_;                           // likewise
  std::optional<CheckpointDirectory> directory_;  // of rank 0
  std::optional<Checkpoint> start_;               // until Restore()
  bool resumed_ = false;                          // start_ is a checkpoint of this experiment
  bool goes_on_ = false;                          // in the run of an earlier start
  RunFile run_;                                   // of rank 0
  int64_t saved_step_ = 0;                        // of the newest checkpoint; 0: none of this run
};

}  // namespace ranklog::trainer

#endif  // TRAINER_SAVER_H_
