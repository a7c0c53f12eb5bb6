#ifndef TRAINER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define TRAINER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/base/lock_file.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ranklog::trainer {

// A rise of the train loss by more than this many nats per token shows that the training has
// diverged: the probability of each token falls to a seventh.
constexpr double kLossRise = 2;

// The same, for a loss that is the mean over `tokens` tokens. The spread of such a mean is
// proportional to 1 / sqrt(tokens). With fewer than 256 tokens, a rise of kLossRise may be noise.
double LossRise(int64_t tokens);

// The checkpoints of an experiment: files such as checkpoint-00000100.safetensors, named after the
// completed steps. Only rank 0 has this object. It holds a lock on the directory, so that two
// trainings do not mix their checkpoints. The lock ends with the process.
//
// Not thread-safe. Errors name the file and the reason.
class CheckpointDirectory {
 public:
  // Creates `path` and its missing parents, and removes the unfinished files of a killed training.
  // Save() will keep the last `keep` checkpoints, at least 1, and those from before a rise of the
  // loss by `loss_rise`, see RemoveOld(). If another training holds the lock, calls `report` with a
  // message and waits for some seconds.
  //   kUnavailable  another training still holds the lock
  //   others        the directory cannot be created or written, by errno
  static absl::StatusOr<CheckpointDirectory> Open(
      std::string path, int keep, const std::function<void(const std::string&)>& report = nullptr,
      double loss_rise = kLossRise);
  CheckpointDirectory(CheckpointDirectory&&) = default;
  CheckpointDirectory& operator=(CheckpointDirectory&&) = delete;

  // The newest readable checkpoint, and its file. Skips a checkpoint that is damaged or of another
  // program, and calls `warn` with a message that names it. nullopt: no checkpoint exists.
  //   kDataLoss            checkpoints exist, but none can be read
  //   kFailedPrecondition  a newer version wrote the newest one; an older one would lose steps
  //   others               a file cannot be read, by errno
  struct Found {
    std::string path;
    Checkpoint checkpoint;
  };
  absl::StatusOr<std::optional<Found>> Latest(
      const std::function<void(const std::string&)>& warn) const;

  // The number of runs with checkpoints in this directory: those in earlier-N, and the last one.
  int64_t RunsWithCheckpoints() const;

  // Moves all checkpoints to a new directory `path`/earlier-N, before a new run. Returns that
  // directory; "" if there were no checkpoints.
  absl::StatusOr<std::string> SetAside();

  // On OK the checkpoint survives a power cut. Then removes the oldest ones, see RemoveOld().
  absl::Status Save(const Checkpoint& checkpoint);

  // Removes all but the last `keep` checkpoints up to step `newest`, which must be readable. If its
  // train loss is more than `loss_rise` above the lowest one, checkpoints from before the rise stay
  // as well: at most `keep` more. Unreadable checkpoints of later steps do not count; a later
  // Save() overwrites them.
  void RemoveOld(int64_t newest);

  // The lowest train loss of the checkpoints; infinity if none is known.
  double LowestLoss() const;

  const std::string& path() const { return path_; }
  // The path of the checkpoint of `step`.
  std::string PathOf(int64_t step) const;

 private:
  CheckpointDirectory(std::string path, int keep, double loss_rise, LockFile lock);
  std::string EarlierRun(int number) const;
  // Descending.
  std::vector<int64_t> Steps() const;

  const std::string path_;
  const int keep_;
  const double loss_rise_;
  LockFile lock_;
};

// Advice after a signal ended a training that saves in `directory`, as the end of a sentence.
std::string AdviceAfterKill(const std::string& directory);

// Advice after a loss that rose or is not finite, as the end of a sentence. Names the newest files
// in `directory` from before the loss rose. The newest one may lead to another divergence, and
// --resume would replace the older ones, so the advice is a new experiment.
std::string AdviceAfterDivergence(const std::string& directory, double loss_rise = kLossRise);

}  // namespace ranklog::trainer

#endif  // TRAINER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
