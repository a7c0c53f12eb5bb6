#ifndef TRAINER_SAVER_H_
#define TRAINER_SAVER_H_

#include <cstdint>
#include <limits>
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

// Restores a training from a checkpoint and saves new ones. Every rank has a Saver; only that of
// rank 0 writes. The others read the checkpoint that rank 0 chose, so all nodes must share the
// directory.
//
// Not thread-safe. Throws what LibTorch throws.
class Saver {
 public:
  // Opens {save_dir}/{experiment_name}, and reads the start of the training: the newest checkpoint
  // with --resume, else the weights of --init-from. Checks everything before it changes anything.
  // Then, if it does not resume, moves the checkpoints of an earlier training to a subdirectory and
  // prints that. Collective.
  //   kAborted          rank 0 failed; the message has its reason
  //   kInvalidArgument  the file is not a checkpoint of this program
  //   others            see CheckResume(), CheckInitFrom() and CheckpointDirectory
  // Throws std::runtime_error if another rank cannot read the file.
  static absl::StatusOr<Saver> Open(const Options& options, const Plan& plan,
                                    Fingerprint fingerprint, ProcessGroup& group);

  // Sets the run of this start, see ChooseRun(). With --resume, the run continues. Without it, rank
  // 0 creates a new run with a new id, even if RANKLOG_RESUME or Slurm's requeue count is set. Rank
  // 0 prints that RANKLOG_RESUME is ignored, and with --save-dir RANKLOG_RUN_ID, if they are set.
  void ContinueRun(Settings& settings) const;

  // Whether this start continues the run of an earlier one.
  bool continues_run() const { return continues_run_; }

  // Stores the run's id as the daemon returned it, for the next start. Call it once a daemon has
  // answered. Only rank 0 stores it; the other ranks do nothing.
  void SettleRun(const std::string& run_id);

  // Whether the next start can continue the run: its id is stored, or this rank stores no id.
  bool run_settled() const { return !directory_ || run_.settled; }

  // Fills model, optimizer, sampler and random state from the checkpoint; with --init-from, only
  // the model. Returns the number of completed steps, 0 for a new training.
  //   kInvalidArgument  the file does not match; the message names a tensor
  absl::StatusOr<int64_t> Restore(torch::nn::Module& model, torch::optim::AdamW& optimizer,
                                  EpochSampler& sampler);

  // Whether the training writes checkpoints: --save-dir is given, and --save-every is not 0.
  bool saves() const;

  // Whether a checkpoint of this training exists.
  bool has_checkpoint() const { return saved_step_ > 0; }

  // The file of the newest checkpoint, on rank 0; empty on the others.
  std::string newest_file() const {
    return directory_ && has_checkpoint() ? directory_->PathOf(saved_step_) : "";
  }

  // Whether the newest checkpoint of this training is of the last step.
  bool complete() const { return saved_step_ == plan_.steps; }

  // Checks the numbers of `step`, on this rank. Rank 0 prints a warning if the first loss after a
  // checkpoint is far above that of earlier steps, or of a random guess.
  // Throws RankError if a number is not finite. After an overflow of a gradient, every weight is
  // useless, and continuing would only replace the good checkpoints.
  void CheckNumbers(int64_t step, double loss, double grad_norm);

  // Whether a checkpoint is due after `step` of `steps`.
  bool Due(int64_t step, int64_t steps) const;

  // Writes a checkpoint, between two barriers. Adds the fingerprint and the ranks' random states to
  // `checkpoint`, which contains everything else. Collective. If rank 0 cannot write it, it prints
  // why, and the training continues with the older checkpoints. If the `last` checkpoint cannot be
  // written, or a weight is not finite, all ranks throw RankError. `checkpoint.train_loss` is that
  // of this rank; if the mean over the ranks is far above that of earlier checkpoints, rank 0
  // prints a warning.
  void Save(Checkpoint checkpoint, bool last);

 private:
  Saver(const Options& options, const Plan& plan, Fingerprint fingerprint, ProcessGroup& group)
      : options_(&options),
        plan_(plan),
        loss_rise_(LossRise(options.batch_size * options.seq_len * options.grad_accum)),
        fingerprint_(std::move(fingerprint)),
        group_(&group) {}
  // The choice of rank 0, encoded for the other ranks.
  absl::StatusOr<std::string> Choose();
  absl::Status ResumeFrom(CheckpointDirectory::Found found);
  void ChooseRunOfStart(const std::string& path);
  absl::Status PrepareDirectory();
  double ExpectedLoss() const;
  void WarnOfRise(int64_t step, double loss);
  std::string AfterDivergence() const;

  const Options* options_;  // owned by the caller
  Plan plan_;
  double loss_rise_;                              // for the tokens that a rank takes per step
  Fingerprint fingerprint_;                       // for the checkpoints
  ProcessGroup* group_;                           // likewise
  std::optional<CheckpointDirectory> directory_;  // of rank 0
  std::optional<Checkpoint> start_;               // until Restore()
  bool resumed_ = false;                          // start_ is a checkpoint of this experiment
  bool continues_run_ = false;                    // the run of an earlier start
  RunFile run_;                                   // of rank 0
  int64_t saved_step_ = 0;                        // of the newest checkpoint; 0: none of this run
  int64_t start_step_ = 0;                        // completed steps at the start
  double expected_loss_ = std::numeric_limits<double>::infinity();  // at most; known to rank 0
  bool warned_ = false;                                             // of a loss far above it
};

}  // namespace ranklog::trainer

#endif  // TRAINER_SAVER_H_
